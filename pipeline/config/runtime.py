"""Where and how a run executes: free to change on resume, never part of its results."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from pipeline.config.endpoint import EndpointConfig
from pipeline.config.planning import PlanConfig
from pipeline.config.schema import Section
from pipeline.config.secrets import settable, without_credentials, without_secrets
from pipeline.core.prices import Prices


class LimitsConfig(Section):
    """The most that a run may spend; None is no cap. Raised on a resume, the run goes on.

    Once a cap is reached no completion starts; what is in flight ends, and the run ends as capped
    (docs/operations.md).
    """

    completion_tokens: int | None = Field(None, gt=0)
    """Tokens of all completions in the journal and of their lost tries, and those that the judge
    reads and writes."""
    gpu_hours: float | None = Field(None, gt=0)
    """GPUs of all replicas times the hours from the start of the engines to their end."""
    wall_hours: float | None = Field(None, gt=0)
    """Hours of all attempts, without the time between them."""
    usd: float | None = Field(None, gt=0)
    """Money, by the prices below; where both are given they add up."""
    price_gpu_hour: float | None = Field(None, gt=0)
    """Of one GPU, in USD."""
    price_million_tokens: float | None = Field(None, gt=0)
    """Of the tokens that `completion_tokens` counts, in USD."""

    @model_validator(mode="after")
    def _has_a_price(self) -> LimitsConfig:
        if self.usd is not None and not (self.price_gpu_hour or self.price_million_tokens):
            raise ValueError(
                f"usd must have a price, price_gpu_hour or price_million_tokens, got {self.usd:g} "
                "and neither"
            )
        return self

    @property
    def caps(self) -> dict[str, float]:
        """The caps that are set, by name."""
        named = {
            "completion_tokens": self.completion_tokens,
            "gpu_hours": self.gpu_hours,
            "wall_hours": self.wall_hours,
            "usd": self.usd,
        }
        return {name: float(cap) for name, cap in named.items() if cap is not None}


_MOST_CALLS = 1_024
MOST_REPLICAS = 10_000


class EngineConfig(Section):
    """What is passed on to vLLM and does not change what a model answers."""

    tensor_parallel_size: int = Field(1, ge=1)
    """GPUs that share one replica's weights."""
    gpu_memory_utilization: float | None = Field(None, gt=0, le=1)
    """Share of each GPU's memory that a replica may take; None takes 0.9, or 0.9 of a `num_gpus`
    below 1."""
    max_num_seqs: int = Field(256, ge=1)
    """Sequences that a replica runs at once. vLLM's default inside an actor is 128."""
    max_num_batched_tokens: int = Field(16_384, ge=1)
    """Tokens a step. vLLM's default inside an actor is 2,048."""
    enforce_eager: bool = False
    """Skip CUDA graphs: a faster start, slower steps."""
    extra: Annotated[dict[str, Any], AfterValidator(without_secrets)] = Field(default_factory=dict)
    """Further fields of vLLM's AsyncEngineArgs, by name. No secrets: they would be written to
    config.json."""


class PoolConfig(Section):
    """One kind of engine replicas."""

    replicas: int = Field(1, ge=1, le=MOST_REPLICAS)
    """Replicas of a fixed pool."""
    min_replicas: int | None = Field(None, ge=0)
    """Replicas of an elastic pool that must serve before the run begins, at least one."""
    max_replicas: int | None = Field(None, ge=1, le=MOST_REPLICAS)
    """Makes the pool elastic: replicas beyond `min_replicas` start when the cluster has room."""
    num_gpus: float | None = Field(None, ge=0)
    """GPUs Ray sets aside a replica; None takes `engine.tensor_parallel_size`. Below 1 replicas
    share a GPU, 0 runs on CPU."""
    num_cpus: float = Field(1, ge=0)
    resources: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """Ray's custom resources a replica, to place pools on kinds of nodes."""
    label_selector: dict[str, str] = Field(default_factory=dict)
    """Ray node labels that a replica's node must have."""
    env: Annotated[dict[str, str], AfterValidator(without_secrets), AfterValidator(settable)] = (
        Field(default_factory=dict)
    )
    """Environment variables of the replica's process. Names of secrets are refused: what stands
    here is written to config.json. Pass them through the environment of the cluster or job."""
    start_timeout_s: float = Field(1800, gt=0)
    """How long a replica may take to load its model, others on its GPU that load first included."""
    health_timeout_s: float = Field(120, gt=0)
    """A replica whose engine has work but makes no step for this long is replaced, as is one whose
    process hangs. Controllers that hang are after that of generators, and at least 30 s."""
    engine: EngineConfig = EngineConfig()
    endpoint: EndpointConfig | None = None
    """Servers that run already, in place of replicas: then nothing else of this section but
    `start_timeout_s` is read (docs/endpoints.md)."""

    former: ClassVar[frozenset[str]] = frozenset((
        "max_ongoing_requests", "target_ongoing_requests", "upscale_delay_s", "downscale_delay_s",
        "speculation",
    ))  # fmt: skip

    @model_validator(mode="after")
    def _grows(self) -> PoolConfig:
        if self.max_replicas is not None and self.least_replicas > self.max_replicas:
            raise ValueError(
                f"min_replicas must be at most max_replicas {self.max_replicas}, "
                f"got {self.min_replicas}"
            )
        return self

    @model_validator(mode="after")
    def _has_its_gpus(self) -> PoolConfig:
        parallel = self.engine.tensor_parallel_size
        if self.gpus > 1 and self.gpus % 1:
            raise ValueError(f"num_gpus must be whole above 1, got {self.gpus:g}")
        if parallel > 1 and 0 < self.gpus < parallel:
            raise ValueError(
                f"num_gpus must be at least engine.tensor_parallel_size {parallel}, or 0, "
                f"got {self.gpus:g}"
            )
        return self

    @property
    def least_replicas(self) -> int:
        """Replicas that must serve before the run begins."""
        if self.max_replicas is None:
            return self.replicas
        return max(1, self.min_replicas or 1)

    @property
    def most_replicas(self) -> int:
        """Replicas that the pool may come to."""
        return self.max_replicas or self.replicas

    @property
    def places(self) -> int:
        """Requests that the pool works on at once, were nothing else its limit."""
        if self.endpoint is not None:
            return len(self.endpoint.base_urls) * self.endpoint.max_concurrency
        return self.most_replicas * self.engine.max_num_seqs

    @property
    def gpus(self) -> float:
        """GPUs that Ray sets aside for one replica."""
        if self.endpoint is not None:
            return 0.0
        return float(self.engine.tensor_parallel_size) if self.num_gpus is None else self.num_gpus

    @property
    def shares_gpu(self) -> bool:
        """Whether other replicas may be on the GPU of one."""
        return 0 < self.gpus < 1

    @property
    def gpu_share(self) -> float:
        """Part of each of its GPUs that a replica has."""
        return self.gpus if self.shares_gpu else 1.0

    @property
    def memory_share(self) -> float:
        """Part of each GPU's memory that a replica may take."""
        return self.engine.gpu_memory_utilization or 0.9 * self.gpu_share


class ControllerConfig(Section):
    """The CPU actors that hold the chains."""

    actors: int = Field(1, ge=1)
    num_cpus: float = Field(1, ge=0)
    rows_per_block: int = Field(8, ge=1, le=16)
    """Questions a Ray Data task; a slow question holds back the outcome rows of its own block."""
    calls_per_actor: int | None = Field(None, ge=1, le=_MOST_CALLS)
    """Ray Data tasks that one actor works on at once, each with `rows_per_block` questions; None
    takes what holds twice `in_flight`, since a block waits for its slowest question."""
    in_flight: int | None = Field(None, ge=1)
    """Chains that work at once in the whole run; None sizes it from the generator pool and adapts
    it to what the engines say (docs/performance.md)."""
    label_selector: dict[str, str] = Field(default_factory=dict)
    """Ray node labels that the nodes of controllers and of all Ray Data tasks must have: keeps them
    off GPU nodes, which come, go and may be lost."""

    def calls(self, in_flight: int) -> int:
        """Calls of one actor that hold its share of `in_flight` chains; each is a thread there."""
        if self.calls_per_actor is not None:
            return self.calls_per_actor
        return min(_MOST_CALLS, ceil(2 * in_flight / (self.actors * self.rows_per_block)))

    def holds(self, in_flight: int) -> int:
        """Chains that all actors hold, waiting ones included, when sized for `in_flight`."""
        return self.actors * self.calls(in_flight) * self.rows_per_block


class RequestConfig(Section):
    """How a single call of an engine is guarded."""

    deadline_s: float = Field(3600, gt=0)
    """Longest time that one completion may take; then it is cancelled in the engine."""
    score_deadline_s: float = Field(600, gt=0)
    attempts: int = Field(3, ge=1)
    """Tries of one request, all with the same seed."""
    backoff_s: float = Field(1.0, ge=0)
    """Wait before the second try; doubles with each."""
    no_replica_timeout_s: float = Field(1800, gt=0)
    """How long to wait for a replica while none lives."""
    former: ClassVar[frozenset[str]] = frozenset(("affinity_margin",))


class FeatureConfig(Section):
    """The phase that makes the features of a predictor, before the engines start."""

    pool: PoolConfig | None = None
    """Actors that make features; None takes number and size of those of `generator`."""
    cache: str | None = None
    """Folder of cached features; None takes ``features`` below `runs`."""
    former: ClassVar[frozenset[str]] = frozenset(("backend", "batch_size"))


Fault = Literal[
    "bad_request", "error", "crash", "dead", "hang", "freeze", "nan", "range", "count", "empty"
]
"""What a text may provoke: ``crash`` ends the process; ``dead`` reports a dead engine; ``hang``
waits until deadline or abort; ``freeze`` does not even keep its deadline; the last four are answers
that a verifier must never give."""


class Script(Section):
    """Settings of scripted engines (``runtime.scripted``)."""

    p0: float = Field(0.6, ge=0, le=1)
    """P(the first answer is right)."""
    a: float = Field(0.05, ge=0, le=1)
    """P(right -> wrong) of a revision."""
    b: float = Field(0.3, ge=0, le=1)
    """P(wrong -> right) of a revision."""
    tokens: int = Field(55, ge=1)
    """Median completion tokens; a completion has between half and twice as many."""
    reply_chars: int = Field(0, ge=0, le=1_000_000)
    """Characters of made-up working in front of each answer."""
    tokens_per_s: float | None = Field(None, gt=0)
    """Speed of one sequence; None answers at once."""
    score_s: float = Field(0.0, ge=0)
    """Seconds of one score."""
    slots: int = Field(256, ge=1)
    """Requests served at once; others wait, lowest priority value first."""
    kv_tokens: int = Field(16_384, ge=0)
    """KV cache that an engine says it has a slot; 0 says nothing."""
    preempts_above: int | None = Field(None, ge=1)
    """Requests in a generator beyond which it counts a preemption for each that comes."""
    faults: dict[str, Fault] = Field(default_factory=dict)
    """What a generator does when the prompt holds a text."""
    score_faults: dict[str, Fault] = Field(default_factory=dict)
    """What a verifier does when question or reply holds a text."""
    witness: str | None = None
    """Folder in which each generator writes down what it made, a line a completion: what it says of
    itself even after it was killed."""
    logprobs: bool = False
    """Whether completions have a made-up confidence, as ``science.generator.logprobs`` asks for."""
    fault_times: int | None = Field(None, ge=1)
    """How often, in one process, each piece of text provokes its fault; None is always."""
    former: ClassVar[frozenset[str]] = frozenset(("in_process",))


class RuntimeConfig(Section):
    """Everything that may differ between two attempts of the same run."""

    runs: Annotated[str, AfterValidator(without_credentials)] = "runs"
    """Folder of run directories: a path or an s3:// or gs:// address, without keys in it."""
    ray_address: str | None = None
    """Cluster to join; None joins the one of the job, else starts Ray on this machine."""
    generator: PoolConfig = PoolConfig()
    verifier: PoolConfig = PoolConfig()
    judge: PoolConfig = PoolConfig(num_gpus=0, num_cpus=0)
    """Of ``science.judge``: its ``endpoint``."""
    controllers: ControllerConfig = ControllerConfig()
    features: FeatureConfig = FeatureConfig()
    requests: RequestConfig = RequestConfig()
    journal_flush_s: float = Field(5.0, gt=0, le=60)
    """Longest time that a finished round stays in memory only."""
    drain_s: float | None = Field(None, ge=0)
    """How long a run that gets SIGTERM waits for completions in flight before it cuts
    them. Ray kills a stopped job after 3 s unless RAY_JOB_STOP_WAIT_TIME_S in the job's environment
    says otherwise; None takes what that leaves: 1 s of 3, 118 s of 150."""
    grading_workers: int = Field(1, ge=1, le=256)
    """Processes that grade what needs computer algebra, a controller."""
    no_progress_timeout_s: float = Field(7200, gt=0)
    """The run ends with an error when no round ends for this long."""
    limits: LimitsConfig = LimitsConfig()
    """What the whole run may spend."""
    plan: PlanConfig | None = None
    """Hardware and assumptions of `--dry-run`."""
    scripted: Script | None = None
    """Scripted engines in place of real ones: for tests and load measurements. The run is marked
    synthetic."""

    former: ClassVar[frozenset[str]] = frozenset((
        "host", "max_failed_share", "min_questions_before_giving_up",
    ))  # fmt: skip

    @model_validator(mode="after")
    def _spends_what_is_capped(self) -> RuntimeConfig:
        limits = self.limits
        by_gpus = limits.price_gpu_hour and not limits.price_million_tokens
        for name in ("gpu_hours", *(("usd",) if by_gpus else ())):
            if name in limits.caps and not any(pool.gpus for pool in self.pools.values()):
                raise ValueError(f"limits.{name} must come with a pool that has GPUs, got none")
        return self

    def prices(self, per_million: float | None = None) -> Prices | None:
        """USD per million tokens: those given, else of the endpoint, else of the cap on money.

        Tokens of a judge without a price there cost what its own endpoint asks, at the dearer of
        its prices, as they are counted together.

        Args:
            per_million: of completion and wasted tokens alone.
        """
        endpoint, judge = self.generator.endpoint, self.judge.endpoint
        prices = None if per_million is not None or endpoint is None else endpoint.usd_per_million
        if prices is None:
            per_million = self.limits.price_million_tokens if per_million is None else per_million
            prices = None if per_million is None else Prices(prompt=0.0, completion=per_million)
        own = None if judge is None else judge.usd_per_million
        if prices is None or own is None or prices.judge:
            return prices
        return replace(prices, judge=max(own.prompt, own.completion))

    @property
    def pools(self) -> dict[str, PoolConfig]:
        """The pool of every role of a model: the fields of this section that are pools."""
        return {name: value for name, value in self if isinstance(value, PoolConfig)}
