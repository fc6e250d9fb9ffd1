#!/bin/bash
# One run on Slurm: a Ray cluster over the job's nodes, the run on it, and the end of both.
#
#   sbatch --nodes=4 --gpus-per-node=4 deploy/slurm.sh --config configs/qwen-7b-4-nodes.yaml --name qwen-7b
#   scancel --batch --signal=TERM JOBID      # stop it and keep everything; plain scancel loses seconds
#
# What follows the script's name is given to jobs.evaluate. Submit from the checkout, on a file system
# that all nodes share; --name is what a requeued job goes on with. A run that is stopped before its
# time is up (status 75) is queued again and resumes by itself.
#SBATCH --job-name=markovscale
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=slurm-%j.log

set -u
cd "${SLURM_SUBMIT_DIR:-.}" || exit 1
[ -f .venv/bin/activate ] && source .venv/bin/activate
case " $* " in *" --name "*) ;; *) echo "error: --name must be given: a requeued job resumes by it" >&2; exit 2 ;; esac

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
base=$((11000 + SLURM_JOB_ID % 200 * 100)) # a hundred ports of its own: jobs may share a node
export RAY_ADDRESS=$head:$base # also where symmetric-run counts the nodes
export RAY_TEMP=/tmp/ray-$SLURM_JOB_ID # short: sockets lie below it
export LOGS=$PWD/slurm-$SLURM_JOB_ID-ray # Ray logs: a folder a node and start, 0-0 the first
export DRIVER_PID=$LOGS/driver.pid
export RAY_AUTH_MODE=token RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=600
mkdir -p "$LOGS"
rm -f "$DRIVER_PID"
ray get-auth-token --generate > /dev/null

# on every node; symmetric-run starts the head where the address is, and there runs the command
node='
ray symmetric-run --address "$RAY_ADDRESS" --min-nodes "$SLURM_JOB_NUM_NODES" \
  --temp-dir "$RAY_TEMP" --disable-usage-stats "$@"
status=$?
cp -r "$RAY_TEMP/session_latest/logs" "$LOGS/${SLURM_NODEID:-0}-${SLURM_RESTART_COUNT:-0}"
rm -rf "$RAY_TEMP"
exit $status'
ports=(
  --node-manager-port=$((base + 1)) --object-manager-port=$((base + 2))
  --runtime-env-agent-port=$((base + 3)) --dashboard-agent-grpc-port=$((base + 4))
  --dashboard-agent-listen-port=$((base + 5)) --metrics-export-port=$((base + 6))
  --min-worker-port=$((base + 10)) --max-worker-port=$((base + 99))
)
driver='echo $$ > "$DRIVER_PID"; exec python -m jobs.evaluate "$@"'

# Slurm warns this shell alone, which runs on the head's node
trap '[ -s "$DRIVER_PID" ] && kill -TERM "$(cat "$DRIVER_PID")"' TERM
srun --kill-on-bad-exit=0 bash -c "$node" node "${ports[@]}" -- \
  bash -c "$driver" evaluate --resume-if-exists "$@" &
step=$!
while :; do
  wait "$step"
  status=$?
  kill -0 "$step" 2> /dev/null || break # else the wait was ended by the signal
done
if [ "$status" -eq 75 ]; then
  echo "stopped and resumable: queued again"
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
