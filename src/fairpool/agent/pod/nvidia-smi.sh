#!/bin/sh
# A stand-in for nvidia-smi in containers on simulated devices. With a Python in the image it is nvidia_smi.py; without
# one, the table, -L and --query-gpu in plain shell.
if command -v python3 >/dev/null 2>&1; then
  exec python3 -I -S /run/fairpool/support/nvidia_smi.py "$@"
fi

value() {
  found=${gpu#*\""$1"\": }
  case $found in
    \"*) found=${found#\"}; found=${found%%\"*} ;;
    *) found=${found%%,*} ;;
  esac
}

each_gpu() {
  rest=$FAIRPOOL_SIMULATED_GPUS
  while [ "$rest" != "${rest#*\{}" ]; do
    rest=${rest#*\{}
    gpu=${rest%%\}*}
    "$1"
  done
}

list() {
  value index; index=$found
  value name; name=$found
  value uuid
  echo "GPU $index: $name (UUID: $found)"
}

row() {
  value index; index=$found
  value name; name=$found
  value memory_mib
  echo "|   $index  $name  |      0MiB / ${found}MiB |"
}

query() {
  line='' separator='' left="$fields,"
  while [ -n "$left" ]; do
    name=${left%%,*}
    left=${left#*,}
    case $name in
      index | name | uuid) value "$name" ;;
      gpu_name) value name ;;
      gpu_uuid) value uuid ;;
      driver_version) found=simulated ;;
      memory.total | memory.free) value memory_mib; found="$found$mib" ;;
      memory.used) found="0$mib" ;;
      utilization.gpu | utilization.memory) found="0$percent" ;;
      *) echo "Field \"$name\" is not a valid field to query."; exit 2 ;;
    esac
    line="$line$separator$found"
    separator=', '
  done
  echo "$line"
}

fields='' style=csv
for word in "$@"; do
  case $word in
    --query-gpu=*) fields=${word#--query-gpu=} ;;
    --format=*) style=${word#--format=} ;;
    -L | --list-gpus) each_gpu list; exit 0 ;;
    *) echo "nvidia-smi (simulated): not supported: $word"; exit 2 ;;
  esac
done
if [ -n "$fields" ]; then
  mib=' MiB' percent=' %'
  case $style in *nounits*) mib='' percent='' ;; esac
  case $style in *noheader*) ;; *) echo "$fields" ;; esac
  each_gpu query
  exit 0
fi
if [ "${FAIRPOOL_SIMULATED_GPUS:-[]}" = '[]' ]; then
  echo 'No devices were found'
  exit 6
fi
echo '| NVIDIA-SMI simulated          |         Memory-Usage |'
each_gpu row
