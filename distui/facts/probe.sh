# distui's probe. Reads what a host is; writes nothing, needs no root, leaves no process behind.
#
# Every answer is framed by lines that begin with a word only the asker knows, so that nothing a command or a
# login shell prints can pass for a frame. Groups of commands run side by side, each into a pipe of its own, and are
# read one after the other: the whole takes as long as the slowest command, needs no temporary file, and a driver
# stuck in the kernel can't stop it: who reads gives up. Starting a program costs a host more than what most of them
# do, so files are read by the shell itself, and what python3 can do, one python3 does (probe_python.py).
N='@NONCE@'
LIMIT=@LIMIT@
READ=@READ@
ASK=@ASK@
PATH="${PATH:-/usr/bin:/bin}"
LOGIN_PATH=$PATH
PATH="$PATH:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/opt/bin:/snap/bin:/opt/rocm/bin"
PATH="$PATH:/usr/local/nvidia/bin:/usr/lib/wsl/lib:/run/current-system/sw/bin"
LC_ALL=C LANGUAGE=C
export PATH LC_ALL LANGUAGE
unset CDPATH GREP_OPTIONS 2>/dev/null

# now: the clock in $stamp, in nanoseconds where the host can. A python3 that hangs, or prints for ever, is no reason not
# to answer.
now() {
  stamp=$(date +%s%N 2>/dev/null)
  case $stamp in
    *[!0-9]* | '') ;;
    ???????????????????*) return ;;
  esac
  stamp=$({ timeout -s KILL 3 python3 -c 'import time; print(time.time_ns())' | timeout -s KILL 3 dd bs=64 count=1; } 2>/dev/null)
  case $stamp in *[!0-9]* | '') stamp=$(date +%s) ;; esac
}

# age: how long ago this process began in $age, as its seconds and hundredths since the host's boot: it is the login
# shell, which reads its start-up files before it becomes this one.
age() {
  { read -r up rest </proc/uptime && read -r line <"/proc/$$/stat"; } 2>/dev/null || return
  set -- ${line##*) }
  age="$up ${20}"
}

age
now
printf '\n%s begin %s\n' "$N" "$stamp"

first() { head "$@"; }
FIRST="head -c 1000000"
bounded() { timeout -k 1 "$@"; }

# The first question also proves that timeout and head are there, and know what they are asked for here.
PORTS=/proc/sys/net/ipv4/ip_local_port_range
port_range=$(timeout -k 1 5 head -c 100 "$PORTS" 2>/dev/null)
case $port_range in [0-9]*) proven=yes ;; *) proven= port_range=$(cat "$PORTS" 2>/dev/null) ;; esac

# A host may lack `head`, as it may lack anything: `dd` and `sed` do the same, byte by byte.
if [ -z "$proven" ] && [ "$(echo a | head -c 1 2>/dev/null)" != a ]; then
  first() {
    if [ "$1" = -n ]; then sed "$2q"; else dd ${3:+if="$3"} bs=1 count="$2" 2>/dev/null; fi
  }
  FIRST="dd bs=1 count=1000000"
fi

# bounded SECONDS COMMAND...: ends the command when its time is up.
if [ -z "$proven" ] && ! timeout -k 1 5 true 2>/dev/null; then
  if timeout 5 true 2>/dev/null; then
    bounded() { timeout "$@"; }
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

# line_of KEY FILE WORD: the line of a file that begins with a word; an empty line ends what is looked at.
line_of() {
  while read -r line || [ -n "$line" ]; do
    case $line in
      "$3"*) value "$1" "$line"; return ;;
      '') [ "$2" = /etc/os-release ] || return 0 ;;
    esac
  done <"$2"
} 2>/dev/null

system() {
  set -- $(uname -snrm)
  [ $# = 4 ] || set -- "$(uname -s)" "$(uname -n)" "$(uname -r)" "$(uname -m)"
  value system "$1"
  value hostname "$2"
  value kernel "$3"
  value arch "$4"
  value user "$(id -un)"
  value uid "$(own_uid)"
  value home "$HOME"
  cpus_online
  value memlock "$(ulimit -l)"
  from_file machine_id /etc/machine-id
  from_file boot_id /proc/sys/kernel/random/boot_id
  value port_range "$port_range"
  value age "$age"
  line_of cpu_model /proc/cpuinfo 'model name'
  line_of mem_total /proc/meminfo MemTotal
  line_of mem_available /proc/meminfo MemAvailable
  line_of os /etc/os-release PRETTY_NAME=
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

# The effective user id, the second of the kernel's line about this process.
own_uid() {
  while read -r key real effective rest; do
    [ "$key" = Uid: ] && echo "$effective" && return
  done </proc/self/status 2>/dev/null
  id -u
}

# The processors in ranges such as 0-3,8, counted.
cpus_online() {
  line=
  { read -r line </sys/devices/system/cpu/online; } 2>/dev/null
  case $line in
    [0-9]*[!0-9,-]* | [!0-9]* | '') value cpus "$(getconf _NPROCESSORS_ONLN || nproc)"; return ;;
  esac
  count=0
  while [ -n "$line" ]; do
    span=${line%%,*}
    case $line in *,*) line=${line#*,} ;; *) line= ;; esac
    count=$((count + ${span#*-} - ${span%%-*} + 1))
  done
  value cpus "$count"
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
  { cd -P "$2" >/dev/null && real=$PWD && cd /; } 2>/dev/null || return 0
  case ${real##*/} in *:*:*.*) value "$1" "${real##*/}" ;; esac
}

# Where iproute2 is missing or too old for JSON, the kernel's own tables say the same.
network() {
  part sys_net sys_net
  if part ip_addr bounded "$LIMIT" ip -j -d addr; then
    if part proc_route default_route; then return; fi
    [ -n "$tables" ] || part ip_route bounded "$LIMIT" ip -j route show default
    if default_route6; then part ip_route6 bounded "$LIMIT" ip -6 -j route show default; fi
  else
    part proc_route cat /proc/net/route
    part proc_if_inet6 cat /proc/net/if_inet6
    part proc_fib_trie first -c 200000 /proc/net/fib_trie
  fi
}

# The head of the IPv4 routes and those to everywhere, which come first, the least metric before the others.
default_route() {
  default=1 tables=
  while read -r nic there gateway flags count use metric mask rest; do
    case $nic/$there/$mask in
      Iface/*) tables=read ;;
      '*'/*) continue ;;
      */00000000/00000000) default=0 ;;
      */00000000/*) continue ;;
      *) break ;;
    esac
    echo "$nic $there $gateway $flags $count $use $metric $mask $rest"
  done </proc/net/route
  return "$default"
} 2>/dev/null

# Whether there may be an IPv6 route to everywhere: the kernel lists those of all tables, so that `ip` tells which counts.
default_route6() {
  count=0
  while read -r there bits source rest; do
    case $there/$bits/${rest##* } in
      *[1-9a-f]*/00/* | */lo) ;;
      */00/*) return 0 ;;
    esac
    count=$((count + 1))
    [ "$count" -lt 100 ] || return 0
  done </proc/net/ipv6_route
  return 1
} 2>/dev/null

listening() {
  command -v ss >/dev/null && bounded "$LIMIT" ss -ltn && return
  for file in /proc/net/tcp /proc/net/tcp6; do grep ' 0A ' "$file"; done
  :
}

disks() {
  part disk all_disks
}

# One df for all; where it fails, as with a mount whose server is gone, one for each, side by side.
all_disks() {
  value home "$HOME"
  set -- / ${HOME:+"$HOME"} /dev/shm /tmp
  [ -d /var/lib/docker ] && set -- "$@" /var/lib/docker
  word=path
  for path; do echo "$word $path"; word=and; done
  bounded "$LIMIT" df -kP "$@" 2>/dev/null && return
  echo again
  for path; do
    { found=$(bounded 1 df -kP "$path" 2>/dev/null | tail -n 1); printf 'path %s\n%s\n' "$path" "$found"; } &
  done
  wait
}

# What one python3 tells; without it, or where it hangs, other programs tell the same.
ask_python() {
  bounded "$LIMIT" python3 -I -S -c "$ASK" "$N" '@API@' 2>/dev/null
  case $? in
    0) return ;;
    3) part ports listening; return ;;
    124 | 137) hurry=1 ;;
    *) hurry=$LIMIT ;;
  esac
  part python bounded "$hurry" python3 -c 'import sys; print("python %d.%d.%d" % sys.version_info[:3])'
  part ports listening
  name=$(uname -n)
  part hosts grep -F "$name" /etc/hosts
  part name bounded "$hurry" getent ahosts "$name"
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

# MIG's parts are listed apart, as is what the table does not tell of GPUs that fail.
nvidia_table() {
  part nvidia_query nvidia_query
  case $code/$fields/$said in
    *nabled* | *rror* | *lost* | *nknown*) ;;
    "0/$GPU_FIELDS,mig.mode.current/"*) return ;;
  esac
  part nvidia_list smi -L
}
nvidia_processes() { command -v nvidia-smi >/dev/null && part nvidia_apps nvidia_apps; }
no_nvidia_smi() { echo "nvidia-smi: not found"; return 127; }

amd() {
  if command -v amd-smi >/dev/null; then
    part amd_static bounded "$LIMIT" amd-smi static --json
    part amd_monitor amd_monitor
  else
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

# Its client, and what python3 tells meanwhile, of which the daemon's own answer counts where the client asks the
# same daemon; else the client is asked for that, too, unless it has just failed in a way that stays.
ask_engine() {
  # A Go program makes threads for all processors of the host and cleans up its memory: more than a client needs that
  # ends at once.
  export GOMAXPROCS=2 GOGC=400
  part engine_path engine_path
  part engine_version patient version --format '{{json .}}'
  ended=$code
  case $said in *'"Context":"default"'*) asks=default ;; *) asks=other ;; esac
  # dd passes on at once what it reads, so that nothing is lost when it is ended because a python3 is stuck.
  reply=$(bounded "$((LIMIT + 2))" dd bs=65536 count=200 2>/dev/null)
  printf '%s\n' "$reply"
  case $asks/$reply in
    default/*"$N part engine_api"*) part engine_asked echo api; return ;;
  esac
  case $ended in 124 | 126 | 127 | 137 | 141) return ;; esac
  part engine_socket engine_socket
  part engine_info engine_facts "$ended"
}

python_and_engine() {
  if [ -n '@KIND@' ]; then ask_python | ask_engine; else ask_python; fi
}

# Where the client is: for hosts whose non-interactive PATH lacks it.
engine_path() {
  set -- @ENGINE@
  for other in docker podman; do command -v "$other" >/dev/null && value found "$other"; done
  (PATH=$LOGIN_PATH; command -v "$1" >/dev/null) && value in_path yes
  value path "$(command -v "$1")"
}

# engine_facts STATUS: of a daemon that answered with that before; one that failed has been waited for already.
engine_facts() {
  if [ "$1" = 0 ]; then captured patient info --format '{{json .}}'; else captured engine info --format '{{json .}}'; fi
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

quick() {
  part system system
  if ! command -v nvidia-smi >/dev/null; then part nvidia_query no_nvidia_smi; fi
  part nvidia_kernel nvidia_kernel
  network
}

# gather GROUP...: starts the groups, each with a pipe of its own whose end is kept as 3, 4, ...; then reads them all.
# `exec` closes the login's own stdin and stderr for good: a group that hangs must not keep the ssh channel open.
next=3 ends=
gather() {
  [ $# = 0 ] && { collect | first -c 4000000; } 9>&1 && return
  { { eval "exec </dev/null 2>/dev/null $ends"; "$1"; } & } | {
    eval "exec $next<&0 </dev/null"
    ends="$ends $next<&-" next=$((next + 1))
    shift
    gather "$@"
  }
}

# One program reads all pipes. When it was ended because a group hangs, each of the others is read by itself; when a group
# has filled what the whole answer may have, the others are read past that limit, too.
collect() {
  pipes= pipe=3
  while [ "$pipe" -lt "$next" ]; do pipes="$pipes /dev/fd/$pipe" pipe=$((pipe + 1)); done
  bounded "$READ" cat $pipes 9>&- 2>/dev/null
  case $? in
    0) ;;
    124 | 137) read_each 1 ;;
    *) read_each "$READ" >&9 ;;
  esac
}

read_each() {
  left=$1 pipe=3
  while [ "$pipe" -lt "$next" ]; do
    eval "bounded $left $FIRST <&$pipe" 9>&- 2>/dev/null
    case $? in 124 | 137) left=1 ;; esac
    pipe=$((pipe + 1))
  done
}

if [ -n '@GROUP@' ]; then
  set -- '@GROUP@'
else
  set -- python_and_engine disks quick
  if command -v nvidia-smi >/dev/null; then set -- "$@" nvidia_table nvidia_processes; fi
  if command -v amd-smi >/dev/null || command -v rocm-smi >/dev/null; then set -- "$@" amd; fi
fi
gather "$@"
now
printf '\n%s end %s\n' "$N" "$stamp"
exit 0
