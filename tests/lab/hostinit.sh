#!/bin/bash
# First process of a lab host, already in its own net, mount, pid, uts and ipc namespaces.
# Makes a root of its own over the machine's, starts sshd and dockerd, and stays as pid 1.
# Environment: LAB_HOST its name, LAB_FOLDER its folder, LAB_SHARE the shared folder, LAB_GOLDEN image layers,
# LAB_STUBS the stand-ins, LAB_HIDE folders of the machine that a host must not see, LAB_DOCKER 1 for dockerd.
set -eu
# Before /proc is mounted anew this is the pid that the machine sees.
read -r machine_pid _ </proc/self/stat
echo "$machine_pid" >"$LAB_FOLDER/pid.new"
mv "$LAB_FOLDER/pid.new" "$LAB_FOLDER/pid"

mount --make-rprivate /
mkdir -p "$LAB_FOLDER/mnt"
mount -t tmpfs -o mode=755,size=2g tmpfs "$LAB_FOLDER/mnt"
root=$LAB_FOLDER/mnt/root
mkdir "$root" "$LAB_FOLDER/mnt/upper" "$LAB_FOLDER/mnt/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$LAB_FOLDER/mnt/upper,workdir=$LAB_FOLDER/mnt/work" "$root"

fresh() { # fresh PATH [OPTIONS]: an empty tmpfs there
    mkdir -p "$root$1"
    mount -t tmpfs -o "mode=755,size=1g${2:+,$2}" tmpfs "$root$1"
}
for folder in $LAB_HIDE; do
    if [ -d "$root$folder" ]; then fresh "$folder"; fi
done
fresh /root mode=700
fresh /tmp mode=1777,size=256m
fresh /var/tmp mode=1777
fresh /data size=256m
for folder in /home /run /mnt /media /srv /opt /usr/local /etc/docker /var/log /var/lib/containers /var/lib/containerd; do
    fresh "$folder"
done
mkdir -p "$root"/usr/local/{bin,sbin} "$root"/run/{sshd,lock} "$root/var/lib/docker" "$root/mnt/pytorch" "$root/.lab"

# --- devices, proc, sys
mount -t proc proc "$root/proc"
cat /proc/sys/kernel/random/uuid >"$LAB_FOLDER/mnt/boot_id"
mount --bind "$LAB_FOLDER/mnt/boot_id" "$root/proc/sys/kernel/random/boot_id"
fresh /dev
mkdir "$root"/dev/{pts,shm,mqueue,infiniband}
for node in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 fuse:10:229 \
    infiniband/uverbs0:231:192 infiniband/umad0:231:0 infiniband/rdma_cm:10:58; do
    IFS=: read -r path major minor <<<"$node"
    mknod -m 666 "$root/dev/$path" c "$major" "$minor"
done
mount -t devpts -o newinstance,ptmxmode=666,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t mqueue mqueue "$root/dev/mqueue"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
mount -t sysfs sysfs "$root/sys"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"

# --- the InfiniBand port: an overlay adds /sys/class/infiniband to this namespace's own sysfs
mkdir -p "$LAB_FOLDER/mnt/ib-upper/infiniband" "$LAB_FOLDER/mnt/ib-work"
cp -a "$LAB_FOLDER/infiniband/." "$LAB_FOLDER/mnt/ib-upper/infiniband/"
mount -t overlay overlay \
    -o "lowerdir=$root/sys/class,upperdir=$LAB_FOLDER/mnt/ib-upper,workdir=$LAB_FOLDER/mnt/ib-work" "$root/sys/class"
echo 32 >"$LAB_FOLDER/mnt/arphrd-infiniband"
mount --bind "$LAB_FOLDER/mnt/arphrd-infiniband" "$root/sys/devices/virtual/net/ib0/type"

# --- what the host shares with the lab
bind() { # bind FROM TO [OPTIONS]
    mkdir -p "$root$2"
    mount -o "bind${3:+,$3}" "$1" "$root$2"
}
bind "$LAB_SHARE" /mnt/pytorch
bind "$LAB_FOLDER" /.lab/host
bind "$LAB_STUBS" /.lab/stubs ro
if [ "$LAB_DOCKER" = 1 ]; then
    bind "$LAB_GOLDEN" /.lab/golden ro
    bind "$LAB_FOLDER/docker" /var/lib/docker
fi

# --- files of its own in /etc, /root and the homes
rm -f "$root/etc/resolv.conf" "$root/etc/hostname" "$root/etc/hosts" "$root/etc/motd" "$root/etc/environment" "$root/etc/machine-id"
rm -rf "$root/etc/ssh"
cp -a "$LAB_FOLDER/files/." "$root/"
sed -i -e '/^\(trainer\|nodocker\|fishy\|cshy\|noisy\):/d' "$root/etc/passwd" "$root/etc/shadow"
sed -i -e 's/^root:[^:]*:/root:*:/' "$root/etc/shadow"
grep -q '^docker:' "$root/etc/group" || echo 'docker:x:991:' >>"$root/etc/group"
sed -i -e 's/^\(docker:[^:]*:[^:]*:\).*/\1trainer,fishy,cshy,noisy/' "$root/etc/group"
uid=2000
for user in trainer:/bin/bash nodocker:/bin/bash fishy:/usr/bin/fish cshy:/bin/tcsh noisy:/bin/bash; do
    uid=$((uid + 1)) name=${user%%:*}
    echo "$name:x:$uid:$uid::/home/$name:${user#*:}" >>"$root/etc/passwd"
    echo "$name:*:19000:0:99999:7:::" >>"$root/etc/shadow"
    echo "$name:x:$uid:" >>"$root/etc/group"
    mkdir -p "$root/home/$name"
    cp -a "$root/root/.ssh" "$root/home/$name/.ssh"
    chown -R "$uid:$uid" "$root/home/$name"
done
cat >"$root/home/noisy/.bashrc" <<'NOISE'
echo "*** This system is monitored. Have a nice day. ***"
echo "module: loading gcc/12 cuda/12.4" >&2
sleep 0.3
NOISE
for stub in nvidia-smi nvidia-container-runtime-hook; do
    install -m 755 "$root/.lab/stubs/$stub" "$root/usr/bin/$stub"
done
install -m 755 "$root/.lab/stubs/runc" "$root/usr/local/sbin/runc"
install -m 755 "$root/.lab/stubs/dockerd" "$root/usr/local/sbin/dockerd"

hostname "$LAB_HOST"
cd "$root"
mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old
unset LAB_FOLDER LAB_SHARE LAB_GOLDEN LAB_STUBS LAB_HIDE root OLDPWD
export HOME=/root
sh /.lab/stubs/gpu-nodes
ip link set lo up

# --- the InfiniBand port counts what ib0 does, as a port does, in words of four bytes; without a fork
count_words() { # count_words BYTES WORDS
    local bytes
    { read -r bytes <"$1"; } 2>/dev/null && echo $((bytes / 4)) 1<>"$2"
}
{
    set +e
    exec 9<> <(:)
    counters=/sys/class/infiniband/mlx5_0/ports/1/counters
    while :; do
        count_words /sys/class/net/ib0/statistics/rx_bytes "$counters/port_rcv_data"
        count_words /sys/class/net/ib0/statistics/tx_bytes "$counters/port_xmit_data"
        read -r -t 0.25 <&9
    done
} </dev/null >/dev/null 2>&1 &

$(command -v sshd)
if [ "$LAB_DOCKER" = 1 ]; then
    setsid dockerd >>/var/log/dockerd.log 2>&1 </dev/null &
    until test -S /run/docker.sock; do
        kill -0 $!
        sleep 0.02
    done
    docker version >/dev/null
fi
unset LAB_DOCKER LAB_HOST
touch /.lab/host/ready
exec tini -- sleep infinity
