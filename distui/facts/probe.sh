# distui's probe. Reads what a host is; writes nothing, needs no root, leaves no process behind.
#
# Every answer is framed by lines that begin with a word only the asker knows, so that nothing a command or a
# login shell prints can pass for a frame. Groups of commands run side by side, joined into one pipeline: each
# stage runs its own group, then passes on what the stages before it said. So the whole takes as long as the
# slowest command, needs no temporary file, and a driver stuck in the kernel can't stop it: readers give up.
N='@NONCE@'
LIMIT=@LIMIT@
READ=@READ@
PATH="${PATH:-/usr/bin:/bin}"
LOGIN_PATH=$PATH
PATH="$PATH:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/opt/bin:/snap/bin:/opt/rocm/bin"
PATH="$PATH:/usr/local/nvidia/bin:/usr/lib/wsl/lib:/run/current-system/sw/bin"
LC_ALL=C LANGUAGE=C
export PATH LC_ALL LANGUAGE
unset CDPATH GREP_OPTIONS 2>/dev/null

now() {
  stamp=$(date +%s%N 2>/dev/null)
  case $stamp in
    *[!0-9]* | '') ;;
    ???????????????????*) echo "$stamp"; return ;;
  esac
  python3 -c 'import time; print(time.time_ns())' 2>/dev/null || date +%s
}

printf '\n%s begin %s\n' "$N" "$(now)"

# A host may lack `head`, as it may lack anything: `dd` and `sed` do the same, byte by byte.
first() {
  if [ "$1" = -n ]; then sed "$2q"; else dd ${3:+if="$3"} bs=1 count="$2" 2>/dev/null; fi
}
FIRST="dd bs=1 count=1000000"
if [ "$(echo a | head -c 1 2>/dev/null)" = a ]; then
  first() { head "$@"; }
  FIRST="head -c 1000000"
fi

# bounded SECONDS COMMAND...: ends the command when its time is up.
if timeout 5 true 2>/dev/null; then
  bounded() { timeout -k 1 "$@"; }
  timeout -k 1 5 true 2>/dev/null || bounded() { timeout "$@"; }
else
  bounded() {
    seconds=$1
    shift
    exec 9<&0
    "$@" <&9 &
    child=$!
    (sleep "$seconds" && kill -9 "$child") </dev/null >/dev/null 2>&1 9<&- &
    guard=$!
    wait "$child"
    ended=$?
    kill "$guard" 2>/dev/null
    return "$ended"
  }
fi

# part NAME COMMAND...: one framed answer with its exit status.
part() {
  printf '\n%s part %s\n' "$N" "$1"
  shift
  "$@" 2>&1
  ended=$?
  printf '\n%s rc %s\n' "$N" "$ended"
  return "$ended"
}

value() { printf '%s\t%s\n' "$1" "$2"; }

# from_file KEY FILE: the first line of a file, read without starting a process (not for numbers in /proc/sys:
# they give one byte and then end when read byte by byte, as shells do).
from_file() {
  line=
  { read -r line <"$2"; } 2>/dev/null
  [ -n "$line" ] && printf '%s\t%s\n' "$1" "$line"
}

# heard COMMAND...: its output in $said, up to 300 kB, and its exit status in $code. The end is looked for before it is
# cut off: shells need the square of the length to find that there is nothing to cut, which is minutes.
heard() {
  said=$({ "$@"; printf '\nended=%s' "$?"; } 2>&1 | first -c 300000)
  case $said in
    *ended=[0-9] | *ended=[0-9][0-9] | *ended=[0-9][0-9][0-9]) code=${said##*ended=} said=${said%ended=*} ;;
    *) code=141 ;;
  esac
}

# captured COMMAND...: the same, printed.
captured() {
  heard "$@"
  printf '%s\n' "$said"
}

system() {
  value hostname "$(uname -n)"
  value kernel "$(uname -r)"
  value arch "$(uname -m)"
  value system "$(uname -s)"
  value user "$(id -un)"
  value uid "$(id -u)"
  value home "$HOME"
  value cpus "$(getconf _NPROCESSORS_ONLN || nproc)"
  value memlock "$(ulimit -l)"
  from_file machine_id /etc/machine-id
  from_file boot_id /proc/sys/kernel/random/boot_id
  value port_range "$(cat /proc/sys/net/ipv4/ip_local_port_range)"
  value cpu_model "$(grep -m1 '^model name' /proc/cpuinfo)"
  value mem_total "$(grep '^MemTotal' /proc/meminfo)"
  value mem_available "$(grep '^MemAvailable' /proc/meminfo)"
  value os "$(grep '^PRETTY_NAME=' /etc/os-release)"
  [ -d /dev/infiniband ] && value rdma yes || value rdma no
  for hook in nvidia-container-runtime-hook nvidia-container-runtime; do
    command -v "$hook" >/dev/null && value nvidia_hook "$hook"
  done
  for file in /etc/cdi/nvidia*.yaml /var/run/cdi/nvidia*.yaml; do
    [ -e "$file" ] && value nvidia_hook "$file"
  done
  for device in /sys/bus/pci/devices/*; do
    line=
    { read -r line <"$device/vendor"; } 2>/dev/null
    case $line in 0x10de | 0x1002) ;; *) continue ;; esac
    from_file "pci/${device##*/}/$line" "$device/class"
  done
  :
}

sys_net() {
  for dir in /sys/class/net/*; do
    [ -d "$dir" ] || continue
    nic=${dir##*/}
    for file in type operstate mtu address flags speed dev_port; do from_file "net/$nic/$file" "$dir/$file"; done
    for file in rx_bytes tx_bytes; do from_file "net/$nic/$file" "$dir/statistics/$file"; done
    [ -e "$dir/device" ] && pci_of "net/$nic/pci" "$dir/device"
  done
  for dir in /sys/class/infiniband/*; do
    [ -d "$dir" ] || continue
    hca=${dir##*/}
    pci_of "ib/$hca/pci" "$dir/device"
    for netdev in "$dir"/device/net/*; do [ -e "$netdev" ] && value "ib/$hca/netdev/${netdev##*/}" .; done
    for port in "$dir"/ports/*; do
      [ -d "$port" ] || continue
      for file in state rate link_layer; do from_file "ib/$hca/ports/${port##*/}/$file" "$port/$file"; done
      from_file "ib/$hca/ports/${port##*/}/ndev" "$port/gid_attrs/ndevs/0"
    done
  done
  :
}

# pci_of KEY LINK: the PCI address a device link in /sys ends at.
pci_of() {
  real=$(readlink -f "$2" 2>/dev/null)
  case ${real##*/} in *:*:*.*) value "$1" "${real##*/}" ;; esac
}

# Where iproute2 is missing or too old for JSON, the kernel's own tables say the same.
network() {
  part sys_net sys_net
  if part ip_addr bounded "$LIMIT" ip -j -d addr; then
    part ip_route bounded "$LIMIT" ip -j route show default
    part ip_route6 bounded "$LIMIT" ip -6 -j route show default
  else
    part proc_route cat /proc/net/route
    part proc_if_inet6 cat /proc/net/if_inet6
    part proc_fib_trie first -c 200000 /proc/net/fib_trie
  fi
  part ports listening
}

listening() {
  command -v ss >/dev/null && bounded "$LIMIT" ss -ltn && return
  for file in /proc/net/tcp /proc/net/tcp6; do grep ' 0A ' "$file"; done
  :
}

own_name() {
  name=$(uname -n)
  part hosts grep -F "$name" /etc/hosts
  part name bounded "$LIMIT" getent ahosts "$name"
}

disks() {
  part disk all_disks
}

all_disks() {
  value home "$HOME"
  for path in / "$HOME" /dev/shm /tmp /var/lib/docker; do
    [ -n "$path" ] && { echo "path $path"; bounded "$LIMIT" df -kP "$path" 2>/dev/null | tail -n 1; }
  done
  :
}

python() {
  part python bounded "$LIMIT" python3 -c 'import sys; print("python %d.%d.%d" % sys.version_info[:3])'
}

GPU_FIELDS=index,uuid,name,pci.bus_id,memory.total,memory.used,utilization.gpu,temperature.gpu,power.draw,driver_version

smi() { bounded "$LIMIT" nvidia-smi "$@"; }

# smi_table KIND FIELDS: a table by nvidia-smi, printed. A driver refuses the whole query, with status 2, for one
# field that it does not know: it is asked again without that field, at most once for each.
smi_table() {
  fields=$2
  while :; do
    heard smi "--query-$1=$fields" --format=csv
    refused=$(printf '%s\n' "$said" | sed -n 's/.*Field "\([^"]*\)" is not a valid field.*/\1/p' | first -n 1)
    [ "$code" = 2 ] && without_field "$refused" || break
  done
  printf '%s\n' "$said"
}

# without_field NAME: takes one field out of $fields; fails when it is not among them, or the last.
without_field() {
  case ",$fields," in
    ",$1,") return 1 ;;
    *",$1,"*) ;;
    *) return 1 ;;
  esac
  fields=",$fields,"
  fields="${fields%%",$1,"*},${fields#*",$1,"}"
  fields=${fields#,}
  fields=${fields%,}
}

# A lost GPU may fail the query of all: then each is asked by itself.
nvidia_query() {
  smi_table gpu "$GPU_FIELDS,mig.mode.current"
  case $code in 0 | 9 | 12 | 18 | 124 | 126 | 127 | 137) return "$code" ;; esac
  for device in /proc/driver/nvidia/gpus/*; do
    [ -d "$device" ] && smi -i "${device##*/}" "--query-gpu=$fields" --format=csv &
  done
  wait
  return "$code"
}

nvidia_kernel() {
  for file in /proc/driver/nvidia/gpus/*/information; do
    [ -r "$file" ] || continue
    device=${file%/information}
    while read -r key rest; do
      case $key in
        Model:) value "gpu/${device##*/}/model" "$rest" ;;
        GPU) value "gpu/${device##*/}/uuid" "${rest#UUID: }" ;;
      esac
    done <"$file"
  done
  :
}

nvidia_apps() {
  smi_table compute-apps gpu_uuid,pid,used_memory,process_name
  for pid in $(printf '%s\n' "$said" | sed -n 's/^[^,]*, *\([0-9][0-9]*\),.*/\1/p' | sort -u | first -n 200); do
    value "pid/$pid/user" "$(stat -c %U "/proc/$pid" 2>/dev/null)"
    count=0
    while read -r line; do
      value "pid/$pid/cgroup/$count" "$line"
      count=$((count + 1))
    done <"/proc/$pid/cgroup"
  done 2>/dev/null
  return "$code"
}

nvidia_table() { part nvidia_kernel nvidia_kernel; part nvidia_query nvidia_query; }
nvidia_list() { command -v nvidia-smi >/dev/null && part nvidia_list smi -L; }
nvidia_processes() { command -v nvidia-smi >/dev/null && part nvidia_apps nvidia_apps; }

amd() {
  if command -v amd-smi >/dev/null; then
    part amd_static bounded "$LIMIT" amd-smi static --json
    part amd_monitor amd_monitor
  elif command -v rocm-smi >/dev/null; then
    part rocm bounded "$LIMIT" rocm-smi -a --json
  fi
}

amd_monitor() {
  bounded "$LIMIT" amd-smi monitor -p -t -u -v --csv || bounded "$LIMIT" amd-smi monitor -vu --csv
}

engine() { bounded "$LIMIT" @ENGINE@ "$@"; }

# A daemon under load fails a call now and then: what fails for no reason that stays is asked for again.
patient() {
  for pause in 1 1 -; do
    heard engine "$@"
    case $code in 0 | 124 | 126 | 127 | 137 | 141) break ;; esac
    case $said in *ermission\ denied* | *sudo:*) break ;; esac
    [ "$pause" = - ] || sleep "$pause"
  done
  printf '%s\n' "$said"
  return "$code"
}

engine_version() {
  [ -n '@KIND@' ] || return
  part engine_path engine_path
  part engine_version patient version --format '{{json .}}'
  part engine_socket engine_socket
}

# Where the client is: for hosts whose non-interactive PATH lacks it.
engine_path() {
  set -- @ENGINE@
  for other in docker podman; do command -v "$other" >/dev/null && value found "$other"; done
  (PATH=$LOGIN_PATH; command -v "$1" >/dev/null) && value in_path yes
  value path "$(command -v "$1")"
}

engine_info() {
  [ -n '@KIND@' ] || return
  part engine_info engine_facts
}

engine_facts() {
  captured patient info --format '{{json .}}'
  root=$(printf '%s\n' "$said" | sed -n 's/.*"DockerRootDir":"\([^"]*\)".*/\1/p' | first -n 1)
  case $root in /*) echo; value engine_root "$root"; bounded "$LIMIT" df -kP "$root" 2>/dev/null | tail -n 1 ;; esac
  return "$code"
}

# The API's sockets that this login can open: where the client's context points, else the usual places.
engine_socket() {
  own="${XDG_RUNTIME_DIR:-/run/user/$(id -u)}"
  if [ '@KIND@' = podman ]; then
    set -- /run/podman/podman.sock "$own/podman/podman.sock"
  else
    endpoint=$(engine context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null | first -c 4096)
    case $endpoint in
      unix://*) set -- "${endpoint#unix://}" ;;
      '') set -- /var/run/docker.sock "$own/docker.sock" ;;
      *) set -- ;;
    esac
  fi
  for path; do [ -S "$path" ] && [ -r "$path" ] && [ -w "$path" ] && value socket "$path"; done
  :
}

# stage GROUP: runs the group in the background and waits for its words, not for itself. `exec` closes the
# login's own stdin and stderr for good: a group that hangs must not keep the ssh channel open.
stage() {
  own=$({ { exec </dev/null 2>/dev/null; "$1"; } & } | bounded "$READ" $FIRST 2>/dev/null)
  cat
  printf '%s\n' "$own"
}

quick() {
  part system system
  network
}

if [ -n '@GROUP@' ]; then
  stage '@GROUP@' </dev/null
else
  stage quick </dev/null | stage own_name | stage disks | stage python | stage nvidia_table | stage nvidia_list |
    stage nvidia_processes | stage amd | stage engine_version | stage engine_info
fi
printf '\n%s end %s\n' "$N" "$(now)"
exit 0
