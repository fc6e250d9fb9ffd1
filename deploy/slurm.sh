#!/bin/bash
# One run on Slurm: a Ray cluster over the job's nodes, the run on it, and the end of both.
#
#   sbatch --nodes=4 --gpus-per-node=4 deploy/slurm.sh --config configs/qwen-7b-4-nodes.yaml --name qwen-7b
#   scancel --batch --signal=INT JOBID       # stop it for good and keep all; plain scancel loses seconds
#
# What follows the script's name is given to jobs.evaluate. Submit from the checkout, on a file system
# that all nodes share; --name is what a requeued job goes on with. A run that is stopped before its
# time is up (status 75) is queued again and resumes by itself. Nodes are taken whole: symmetric-run
# does not start beside another Ray of the same user, and ends with stopping all of them.
#SBATCH --job-name=markovscale
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --cpus-per-task=16
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=slurm-%j.log

set -u
cd "${SLURM_SUBMIT_DIR:-.}" || exit 1
[ -f .venv/bin/activate ] && source .venv/bin/activate
case " $* " in *" --name "* | *" --name="*) ;; *) echo "error: --name must be given: a requeued job resumes by it" >&2; exit 2 ;; esac

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
base=$((11000 + SLURM_JOB_ID % 200 * 100)) # a hundred ports of its own
export RAY_ADDRESS=$head:$base # also where symmetric-run counts the nodes
export RAY_TEMP=/tmp/ray-$SLURM_JOB_ID # short: sockets lie below it
export LOGS=$PWD/slurm-$SLURM_JOB_ID-ray # Ray logs: a folder a node and start, 0-0 the first
export DRIVER_PID=$LOGS/driver.pid DRIVER_STATUS=$LOGS/driver.status
export RAY_AUTH_MODE=token RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=600
mkdir -p "$LOGS"
rm -f "$DRIVER_PID" "$DRIVER_STATUS"
ray get-auth-token --generate > /dev/null

# on every node; symmetric-run starts the head where the address is, and there runs the command.
# What Ray says of itself goes to its logs. The other nodes join again where their Ray fails, and
# end when the driver has ended
node='
logs=$LOGS/${SLURM_NODEID:-0}-${SLURM_RESTART_COUNT:-0}
mkdir -p "$logs"
start=(ray symmetric-run --address "$RAY_ADDRESS" --min-nodes "$SLURM_JOB_NUM_NODES"
  --temp-dir "$RAY_TEMP" --disable-usage-stats "$@")
if [ "${SLURM_NODEID:-0}" -eq 0 ]; then
  "${start[@]}" 2>&1 | sed -u "/ scripts.py:[0-9]/d; /The autoscaler failed/,/^$/d"
  [ -e "$DRIVER_STATUS" ] || echo 1 > "$DRIVER_STATUS"
else
  exec > "$logs/symmetric-run.log" 2>&1
  until [ -e "$DRIVER_STATUS" ]; do
    "${start[@]}" &
    while [ ! -e "$DRIVER_STATUS" ] && kill -0 $! 2> /dev/null; do sleep 2; done
  done
  ray stop
  kill $! 2> /dev/null
  wait
fi
cp -r "$RAY_TEMP/session_latest/logs/." "$logs"
rm -rf "$RAY_TEMP"'
ports=(
  --node-manager-port=$((base + 1)) --object-manager-port=$((base + 2))
  --runtime-env-agent-port=$((base + 3)) --dashboard-agent-grpc-port=$((base + 4))
  --dashboard-agent-listen-port=$((base + 5)) --metrics-export-port=$((base + 6))
  --min-worker-port=$((base + 10)) --max-worker-port=$((base + 99))
)
driver='
python -m jobs.evaluate "$@" &
echo $! > "$DRIVER_PID"
wait $!
echo $? > "$DRIVER_STATUS"'

# Slurm warns this shell alone, which runs on the head's node; INT is a user's, who wants no requeue
warned= unwanted=
stop() {
  warned=yes
  if [ -s "$DRIVER_PID" ]; then kill -TERM "$(cat "$DRIVER_PID")"; else kill -TERM "$step"; fi
}
trap stop TERM
trap 'unwanted=yes; stop' INT
srun --kill-on-bad-exit=0 bash -c "$node" node "${ports[@]}" -- \
  bash -c "$driver" evaluate --resume-if-exists "$@" &
step=$!
while :; do
  wait "$step"
  status=$?
  kill -0 "$step" 2> /dev/null || break # else the wait was ended by the signal
done
trap - TERM INT
# of all nodes the driver's alone counts; a warning may come before the driver can answer it (143)
[ -s "$DRIVER_STATUS" ] && status=$(cat "$DRIVER_STATUS")
[ -n "$warned" ] && [ "$status" -eq 143 ] && status=75
if [ "$status" -eq 75 ] && [ -z "$unwanted" ]; then
  echo "stopped and resumable: queued again"
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
