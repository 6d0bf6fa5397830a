# Fetches data into a cache folder of this host, once, whole or not at all. Sent by runs/task/fetch.py.
# $1 folder  $2 token of this fetch  $3 url  $4 file or folder  $5 sha256  $6 name of the file of sums  $7 client's argv ...
# stdin: NAME=VALUE lines for the client. Says a dot now and then, and at last `fetched` or `had`.
#
# $1.part   what is there so far; a fetch that was cut off goes on with it where a checksum can tell whether it is right;
#           `begun` in it: somebody works there, or was killed
# $1.lock   of fetches of the same data one works, the others wait; it is touched while its owner lives
# $1        appears by rename when everything is there and right
while IFS= read -r line; do [ -z "$line" ] || export "$line"; done  # first: no name among them changes what follows
dir=$1 token=$2 url=$3 kind=$4 sha=$5 sums=$6; shift 6
case $dir in "~/"*) dir=$HOME/${dir#??};; esac
part=$dir.part lock=$dir.lock at=$dir.lock.at-$$ beat= child=

fail() { printf '%s\n' "$*" >&2; exit 1; }
mine() { [ "$(cat "$lock/owner" 2>/dev/null)" = "$token" ]; }
whole() { trap '' HUP INT TERM PIPE; "$@"; }  # in a subshell: a signal in the middle would leave half of it
# A second signal to the group would end what tidies up. A shell that has just been forked may lose any signal but KILL:
# without an owner a client does not start.
leave() {
  trap '' HUP INT TERM PIPE
  ours=; mine && ours=yes && rm -f -- "$lock/owner"
  [ "$child" != new ] || child=$!
  [ -z "$child" ] || kill -- "-$child" 2>/dev/null || kill "$child" 2>/dev/null
  rm -f -- "$at"
  [ -z "$beat" ] || kill -KILL "$beat" 2>/dev/null
  [ -n "$ours" ] || return
  cd /
  [ "${status:-0}" -gt 128 ] || rm -f -- "$part/begun"  # else its client was killed
  rmdir -- "$part/data" "$part" 2>/dev/null; rm -rf -- "$lock"
}
trap leave EXIT
trap "trap '' HUP INT TERM PIPE; exit 143" HUP INT TERM PIPE

had() { if [ -e "$dir/data" ]; then echo "had $(tail -n 1 "$dir/about" 2>/dev/null)"; exit 0; fi; }
had
umask 077
said=$(mkdir -p -- "${dir%/*}" 2>&1) || fail "$said"
umask 022
n=$#
while [ "$n" -gt 0 ]; do
  word=$1; shift
  [ "$word" != @user@ ] || word=$(id -u):$(id -g)
  set -- "$@" "$word"; n=$((n - 1))
done

# the lock

own() {
  mkdir -- "$lock" || return
  { printf '%s\n' "$token" | cat >"$lock/owner"; } || { rm -rf -- "$lock"; return 1; }
}
unlock() { mv -- "$lock" "$lock.old-$$" 2>/dev/null && rm -rf -- "$lock.old-$$"; }
# Whether it still has the time that it had at the last look. Its time alone does not tell that its owner is gone: the
# clock may have been set meanwhile.
still() {
  if [ -e "$at" ] && [ ! "$lock" -nt "$at" ] && [ ! "$at" -nt "$lock" ]; then return; fi
  if touch -r "$lock" -- "$at" 2>/dev/null; then return 1; fi
  looks=8  # without room for that its time alone has to do
}
tries=0 looks=0
until said=$(whole own 2>&1); do
  if [ -d "$lock" ]; then
    tries=0
    if still; then looks=$((looks + 1)); else looks=0; fi
    if [ "$looks" -ge 120 ] || { [ "$looks" -ge 8 ] && [ -n "$(find "$lock" -maxdepth 0 -mmin +2 2>/dev/null)" ]; }
    then looks=0; (whole unlock); continue
    fi
    echo .; sleep 1
  else tries=$((tries + 1)); [ "$tries" -lt 5 ] || fail "$said"
  fi
done
had
# Somebody may have removed the data alone. What is no folder of ours is not removed, and said before the fetch.
if [ -L "$dir/data" ]; then fail "$dir/data is a link that leads nowhere: is its disk mounted?"
elif [ -d "$dir" ] && [ ! -L "$dir" ]; then said=$(rm -rf -- "$dir" 2>&1) || fail "$said"
elif [ -e "$dir" ] || [ -L "$dir" ]; then fail "$dir is in the way: it is no folder with data in it"
fi

# What a client says may be without end: only the last of it is kept, in front of what it says from then on.
bounded() {
  [ "$(wc -c <"$lock/said" 2>/dev/null || echo 0)" -gt 2000000 ] || return 0
  tail -c 4000 "$lock/said" >"$lock/last" && true >"$lock/said"
}
kept() { cat "$lock/last" "$lock/said" 2>/dev/null; }
# Without anybody who listens the fetch ends: what is there waits for the next one.
( trap '' PIPE
  while sleep 3 </dev/null >/dev/null 2>&1; do
    kill -0 $$ 2>/dev/null || exit
    mine || { kill -TERM $$; exit; }  # this machine slept, and another took the lock over
    touch -- "$lock"
    bounded
    echo . 2>/dev/null || { kill -TERM $$; exit; }
  done ) 2>/dev/null &
beat=$!

# what is fetched, and checked

# aws and rclone know which files of a folder are whole, and remove what is no more, or was never, in the source. ossutil
# takes any file that is there for whole, s5cmd one of the right size, also with holes; both leave what is there besides.
# Without sums these begin again, and so do all after a fetch that was killed, or whose machine went down.
known=
case " $* " in *" aws "*|*" rclone "*) [ "$kind" = file ] || [ -e "$part/begun" ] || known=yes;; esac
[ -n "$sha$sums$known" ] || rm -rf -- "$part"
said=$(mkdir -p -- "$part" 2>&1) && cd "$part" && said=$({ true >begun; } 2>&1) || fail "$said"
free() { df -Pk . | awk 'NR == 2 { print $4 }'; }
size() { if [ -f "$1" ]; then wc -c <"$1"; else echo 0; fi; }
sum() {
  if command -v sha256sum >/dev/null; then sha256sum <"$1"; else shasum -a 256 <"$1"; fi | cut -d ' ' -f 1
}
no_room() {
  left=$(free)
  if [ "${left:-1024}" -lt 1024 ]; then
    cd / && rm -rf -- "$part"
    fail "no space is left in ${dir%/*}; what was fetched so far is removed again"
  fi
}
alone=$(command -v setsid)  # in a group of its own a client ends with all that it has started, which may be all it does
work() {
  child=new  # until its number is known
  rm -f -- "$lock/last"
  { true >"$lock/said"; } 2>/dev/null  # not `:`, after which a shell would end that can't
  { mine && exec $alone "$@"; } 2>>"$lock/said" >&2 </dev/null &
  child=$!
  wait "$child"; status=$?
  child=
  [ "$status" = 0 ] || mine || fail "another fetch has taken this one over"  # no word of the client's, which may not have run
  return $status
}
last_words() {  # progress is written over with carriage returns; what docker refuses ends with where its help is
  words=$(kept | tr '\r' '\n' | tr -d '\0' | grep -v -e '^[[:space:]]*$' -e " run --help'" | tail -n 1 | cut -c 1-400)
  printf '%s\n' "${words:-its client ended with exit $status and said nothing}"
}

# By which protocols $1 may be fetched, whatever it redirects to: what is asked for over https never goes on without.
protocols() { case $1 in [Hh][Tt][Tt][Pp][Ss]:*) echo =https;; *) echo =http,https;; esac; }

met=  # whether this fetch has had any answer
# $1 url  $2 file  $3 its sum, or nothing. Goes on where a broken connection ended, as long as that gets it further.
download() {
  fresh= idle=0 again=0 state= only=$(protocols "$1")
  while :; do
    before=$(size "$2")
    if [ "$before" = 0 ]; then ask "$1"; state=$seen
    else
      met=yes
      if [ -z "$3" ]; then same "$1" || { anew "$1" "$2"; before=0 state=$seen; }
      elif [ "$idle" = 0 ]; then ask "$1"
      fi
    fi
    enough "$1" "$before"
    if work curl -gfsSL --proto "$only" --proto-redir "$only" --connect-timeout 20 --speed-limit 1 --speed-time 60 \
      -C - -o "$2" "$1"
    then
      [ -z "$3" ] && [ "$before" -gt 0 ] || return 0
      idle=0
      same "$1" && return 0  # it may have become another one before the rest was asked for
      anew "$1" "$2"
      continue
    fi
    if no_range; then  # all of it is there already, or the server can't go on in the middle
      [ "$before" -gt 0 ] && [ -z "$fresh" ] || give_up "$1"
      [ -z "$3" ] || [ "$(sum "$2")" != "$3" ] || return 0
      fresh=yes; rm -f -- "$2"
    else
      no_room
      [ "$(size "$2")" -le "$before" ] || idle=0
      later "$1"
    fi
  done
}
# The server's refusal, as every curl words it: its number.
refusal() { kept | sed -n 's/^curl: (22) The requested URL returned error: \([0-9][0-9]*\).*/\1/p' | tail -n 1; }
no_range() {
  case $status in 22) [ "$(refusal)" = 416 ];; 33|36) return 0;; *) return 1;; esac
}
may_pass() {
  case $status in
    1) return 1;;
    22) case $(refusal) in 408|429|5??) return 0;; *) return 1;; esac;;
  esac
}
give_up() {
  no_room
  [ "$status" != 1 ] || fail "can't fetch $1: it leads to an address that is not ${only#=}, which is not followed"
  fail "can't fetch $1: $(last_words)"
}
# Waits, longer each time that nothing came meanwhile: two minutes in all. What never answered is no outage, but a wrong
# address, say, and what can't be written here (23) no other one's: these are said after seconds.
later() {
  may_pass || give_up "$1"
  idle=$((idle + 1)) tries=9
  [ -n "$met" ] && [ "$status" != 23 ] || tries=3
  [ "$idle" -lt "$tries" ] || give_up "$1"
  pause=30; [ "$idle" -gt 5 ] || pause=$((1 << (idle - 1)))
  work sleep "$pause"  # so that a signal ends it
}
# What the server says of $1: its length in $whole; in $seen what tells its state from another one, if it says that.
ask() {
  whole= seen=
  work curl -gfsSLI --proto "$only" --proto-redir "$only" --connect-timeout 20 --max-time 30 -o "$lock/head" "$1"
  case $status in 0|22) met=yes;; esac
  [ "$status" = 0 ] || return
  found=$(tr -d '\r' <"$lock/head" | awk '
    { key = tolower($1) }
    key ~ /^http\// { n = ""; v = "" }
    key == "content-length:" { n = $2 }
    key == "etag:" || key == "last-modified:" { v = v $0 }
    END { print n " " v }')
  whole=${found%% *}
  [ -z "${found#* }" ] || seen=$found
}
# Without a sum, two pieces are of one file only where the server says the same of it before each and at last. One that
# is out of reach, or refuses to say, has not said otherwise: it is asked until it answers.
same() {
  ask "$1"
  while [ "$status" != 0 ] && [ -n "$state" ]; do later "$1"; ask "$1"; done
  [ -n "$seen" ] && [ "$seen" = "$state" ]
}
anew() {
  rm -f -- "$2"
  again=$((again + 1))
  [ "$again" -lt 5 ] || fail "can't fetch $1: the connection breaks off, and nobody can tell whether the rest is of the" \
    "same file: with its sha256 it goes on where it was"
}
# The rest of $1, of which $2 bytes are there, must fit.
enough() {
  case $whole in ''|*[!0-9]*) return;; esac
  room=$(free)
  [ $(((whole - $2) / 1024)) -lt "${room:-0}" ] ||
    fail "$1 has $whole bytes, $(((whole - $2) / 1000000)) MB more than are here, and only $((room * 1024 / 1000000)) MB are free in ${dir%/*}"
}
# $1 url, $2 file, $3 its sum. What an earlier fetch began may be of other data by now: then once from the beginning.
right_file() {
  begun=$(size "$2")
  [ "$begun" = 0 ] || [ "$(sum "$2")" != "$3" ] || return 0
  download "$1" "$2" "$3"
  if [ "$begun" != 0 ] && [ "$(sum "$2")" != "$3" ]; then rm -f -- "$2"; download "$1" "$2" "$3"; fi
}
# $1 file, $2 expected sum, $3 what to call it; a wrong file is removed, so that the next fetch gets it anew
check() {
  [ -f "$1" ] || { wrong="$wrong; $3 is missing"; return; }
  got=$(sum "$1")
  [ "$got" = "$2" ] && return
  rm -f -- "$1"
  wrong="$wrong; $3 has sha256 $got, expected $2"
}
named() {  # the lines of the sums file: SUM, two characters, NAME; the last one may have no end
  none=yes
  while IFS= read -r line <&3 || [ -n "$line" ]; do
    line=$(printf '%s' "$line" | tr -d '\r')
    case $line in ''|'#'*) continue;; esac
    want=${line%% *} name=${line#* }; name=${name#[ *]}; name=${name#./}
    case $want in *[!0-9a-fA-F]*) want=;; esac
    case /$name/ in */../*|//*|*//*) want=;; esac
    [ "${#want}" = 64 ] || fail "$sums: not a line of sha256sum: $(printf '%s' "$line" | cut -c 1-100)"
    want=$(printf '%s' "$want" | tr A-F a-f)
    "$@" "$want" "$name"
    none=
  done 3<"data/$sums"
  [ -z "$none" ] || fail "$sums names no file, so that nothing could be checked by it"
}
one() {
  [ ! -d "data/$2" ] || rm -rf -- "data/$2"  # an earlier fetch may have begun other data: a folder here, a file above
  case $2 in */*) mkdir -p -- "data/${2%/*}" 2>/dev/null || { rm -rf -- "data/${2%%/*}"; mkdir -p -- "data/${2%/*}"; };; esac
  right_file "$url$(printf '%s' "$2" | sed 's/%/%25/g; s/ /%20/g; s/#/%23/g; s/?/%3F/g')" "data/$2" "$1"
}
look() { check "data/$2" "$1" "$2"; }

wrong=
if [ "$kind" = folder ]; then
  mkdir -p data
  if [ "$1" = curl ]; then
    rm -f -- "data/$sums"; download "$url$sums" "data/$sums" ""
  else
    work "$@" || { no_room; fail "$url: $(last_words)"; }
    [ -n "$(find data ! -type d | head -n 1)" ] || fail "$url has no file"
  fi
  if [ -n "$sums" ]; then
    [ -f "data/$sums" ] || fail "$url has no file $sums"
    [ -z "$sha" ] || check "data/$sums" "$sha" "$sums"
    [ -n "$wrong" ] || { [ "$1" != curl ] || named one; named look; }
  fi
elif [ "$1" = curl ]; then
  if [ -n "$sha" ]; then right_file "$url" data "$sha"; else download "$url" data ""; fi
else
  work "$@" || { no_room; fail "$url: $(last_words)"; }
  [ -e data ] || fail "$url is not there: its client ended without an error, and left nothing"
fi
[ "$kind" = folder ] || [ -z "$sha" ] || check data "$sha" "$url"
if [ -n "$wrong" ]; then
  [ "$kind" = folder ] || { cd / && rm -rf -- "$part"; }
  fail "the checksum is wrong: $(printf '%s' "${wrong#; }" | cut -c 1-600); what is wrong is removed, nothing was put in place"
fi
said=$({ printf '%s\n' "$url" "$(date -u '+%Y-%m-%d %H:%M UTC')" | cat >about; } 2>&1) || { no_room; fail "$said"; }
# After a power cut the folder's name may be on the disk without all that is in it: then nobody would fetch it again. Of
# a disk that does not keep what it took (NFS over its quota) this is the first word, unless it is one about -f.
if ! work sync -f .; then
  said=$(last_words)
  ! work sync -f / || { cd / && rm -rf -- "$part"; fail "what was fetched could not be written to the disk: $said"; }
  work sync
fi
rm -f begun
cd / && said=$(mv -- "$part" "$dir" 2>&1) || fail "$said"
echo fetched
