"""Train the generators and the verifier of `steps-K` from nothing; every part ends by the clock.

    python -m tools.train corpus --data DIR                             # shards of examples
    python -m tools.train generator --size small --data DIR --out FOLDER --seconds 100
    python -m tools.train solutions --generator FOLDER --data DIR       # own solutions, checked
    python -m tools.train verifier --generator FOLDER --data DIR --out FOLDER

Where `--generator` names a trained model of the part's own kind, its training goes on. A generator
learns on several GPUs where `torchrun --nproc-per-node N -m tools.train generator ...` starts it.

A generator learns from worked solutions (`tools.corpus`); from the middle of its time on, a third
of its batches revise right and wrong answers of its own making. The verifier starts as a copy of
the small generator and learns from checked steps of all generators' own solutions. Published
verifiers are far from perfect, so of the snapshots of its training the one is kept whose AUC within
a question, on validation questions, is nearest `AUC_WANTED`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import distributed
from torch.nn import functional

from tools import problems as steps
from tools.corpus import example, hand, prompt, written
from tools.model import SHAPES, Model, load, sample, save
from tools.problems import answer_of, steps_of
from tools.tokens import BOS, EOS, PAD, STEP, decode, encode

LEVELS = tuple(range(1, 13))
LENGTHS = (72, 112, 152, 200, 280)
"""Examples are padded to the first of these that holds them."""
MOST_NEW = 160
AUC_WANTED = 0.80
SNAPSHOTS = (100, 200, 400, 800, 1200, 1600, 2000, 2500, 3000, 4000, 5000)
"""Batches after which the verifier is looked at."""
SHORT_FIRST = 0.15
"""Share of the time in which a generator sees short problems alone."""
_PEAK_RATES = {"small": 2.5e-3, "medium": 1.5e-3, "large": 8e-4}
_BATCH_TOKENS = {"small": 32_768, "medium": 32_768, "large": 24_576}
_AT_ONCE = 4096
"""Replies sampled together."""

Rows = dict[int, tuple[np.ndarray, np.ndarray]]
"""By padded length: ids (n, length) and a second array with a row an example."""


def main(argv: list[str] | None = None) -> int:
    """Parse and run one part."""
    parser = argparse.ArgumentParser(prog="tools.train", description=__doc__)
    parser.add_argument("part", choices=("corpus", "generator", "solutions", "verifier"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--size", choices=tuple(SHAPES), default="small")
    parser.add_argument("--generator", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--shards", type=int, default=96)
    parser.add_argument("--examples", type=int, default=16_384, help="a shard")
    parser.add_argument("--own", type=int, default=6144, help="questions of own revisions")
    parser.add_argument("--solutions", type=int, default=65_536)
    parser.add_argument("--questions", type=int, default=100, help="validated, of each level")
    parser.add_argument("--rate", type=float, default=5e-4, help="of the verifier's learning")
    parser.add_argument("--batch-scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    args.device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    args.rank = int(os.environ.get("RANK", "0"))
    if "WORLD_SIZE" in os.environ:
        if args.device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        distributed.init_process_group("cpu:gloo,cuda:nccl" if args.device == "cuda" else "gloo")
    globals()[f"_make_{args.part}"](args)
    if distributed.is_initialized():
        distributed.destroy_process_group()
    return 0


# ---- the corpus


def _make_corpus(args: argparse.Namespace) -> None:
    import multiprocessing

    args.data.mkdir(parents=True, exist_ok=True)
    jobs = [(args.data, args.seed, index, args.examples) for index in range(args.shards)]
    with multiprocessing.get_context("fork").Pool(args.workers) as pool:
        for _ in pool.imap_unordered(_shard, jobs):
            pass


def _shard(job: tuple[Path, int, int, int]) -> None:
    folder, seed, index, count = job
    rng = np.random.default_rng(np.random.SeedSequence((seed, index)))
    known = hand()
    rows = _padded([_example_ids(*example(rng, known, LEVELS)) for _ in range(count)])
    path = folder / f"corpus-{index:03d}.npz"
    _write_rows(rows, path)


def _write_rows(rows: Rows, path: Path) -> None:
    arrays = {}
    for length, (ids, other) in rows.items():
        arrays |= {f"ids{length}": ids, f"other{length}": other}
    part = path.with_suffix(".part.npz")
    np.savez(part, **arrays)
    part.rename(path)


def _read_rows(paths: Sequence[Path]) -> Rows:
    parts = [np.load(path) for path in paths]
    rows = {}
    for length in LENGTHS:
        found = [p for p in parts if f"ids{length}" in p]
        if found:
            ids = np.concatenate([p[f"ids{length}"] for p in found])
            rows[length] = (ids, np.concatenate([p[f"other{length}"] for p in found]))
    return rows


def _example_ids(asked: str, solved: Sequence[str]) -> tuple[list[int], int]:
    """Ids of a prompt and its solution, and how many of them are the prompt."""
    head = prompt_ids(asked)
    return [*head, *encode("\n\n".join(solved)).tolist(), EOS], len(head)


def prompt_ids(text: str) -> list[int]:
    """Ids of a prompt, as the generator's chat template gives them for one user turn."""
    return [BOS, *encode(text + "\n").tolist()]


def _padded(examples: Sequence[tuple[list[int], Any]]) -> Rows:
    by_length: dict[int, list[tuple[list[int], Any]]] = {}
    for ids, other in examples:
        length = next(length for length in LENGTHS if len(ids) <= length)
        by_length.setdefault(length, []).append((ids, other))
    rows = {}
    for length, group in by_length.items():
        table = np.full((len(group), length), PAD, dtype=np.uint8)
        for target, (ids, _) in zip(table, group, strict=True):
            target[: len(ids)] = ids
        rows[length] = (table, np.array([other for _, other in group]))
    return rows


# ---- batches and fitting


class _Batches:
    """Random batches of about as many tokens, on the device; every example as likely."""

    def __init__(self, rows: Rows, tokens: int, device: str, seed: int) -> None:
        self.rng = np.random.default_rng(np.random.SeedSequence((seed, 4)))
        self.rows = {
            length: (torch.from_numpy(ids).to(device), torch.from_numpy(other).to(device))
            for length, (ids, other) in rows.items()
        }
        self.tokens, self.device = tokens, device
        self.lengths = sorted(self.rows)
        self.weights = [len(self.rows[length][0]) * length for length in self.lengths]

    def random(self, longest: int = LENGTHS[-1]) -> tuple[Any, Any]:
        """A batch of examples of one padded length, `longest` at most."""
        lengths = [length for length in self.lengths if length <= longest] or self.lengths[:1]
        weights = np.array(self.weights[: len(lengths)])
        length = int(self.rng.choice(lengths, p=weights / weights.sum()))
        ids, other = self.rows[length]
        size = max(1, min(len(ids), self.tokens // length))
        chosen = torch.randint(len(ids), (size,), device=self.device)
        return ids[chosen].long(), other[chosen]


def _generator_loss(model: Model, batch: tuple[Any, Any]) -> Any:
    """Cross-entropy, in nats a token, of the solutions; prompts and padding do not count."""
    ids, prompt_tokens = batch
    logits = model(ids[:, :-1])
    positions = torch.arange(1, ids.shape[1], device=ids.device)
    counted = (positions >= prompt_tokens[:, None]) & (ids[:, 1:] != PAD)
    targets = ids[:, 1:].masked_fill(~counted, -1)
    return functional.cross_entropy(
        logits.float().flatten(0, 1), targets.flatten(), ignore_index=-1
    )


def _verifier_loss(model: Model, batch: tuple[Any, Any]) -> Any:
    ids, labels = batch
    return functional.cross_entropy(
        model(ids).float().flatten(0, 1), labels.long().flatten(), ignore_index=-1
    )


def _fit(
    model: Model,
    batch_of: Callable[[float], Any],
    loss_of: Callable[[Model, Any], Any],
    rate_of: Callable[[float], float],
    seconds: float,
    *,
    after: Callable[[int], bool] = lambda batches: False,
    seconds_of: Callable[[], float | None] = lambda: None,
    label: str = "",
) -> dict[str, Any]:
    """AdamW until `seconds` have gone or `after` says so; what it did.

    Processes of one group take batches of their own and average their gradients and clocks.
    """
    processes = distributed.get_world_size() if distributed.is_initialized() else 1
    device = next(model.parameters()).device.type
    decayed = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(
        groups, lr=1e-3, betas=(0.9, 0.95), fused=True if device == "cuda" else None
    )
    began, batches, last, recent = time.monotonic(), 0, 0.0, []
    model.train()
    while (progress := _mean_of_processes((time.monotonic() - began) / seconds)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = rate_of(progress) * min(1.0, (batches + 1) / 100)
        batch = batch_of(progress)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = loss_of(model, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if processes > 1:
            _average_gradients(model, processes)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        batches += 1
        recent.append(loss.detach())
        if device == "cuda" and batches % 16 == 0:
            torch.cuda.synchronize()  # the clock is that of the work, not of its queue
        if time.monotonic() - last > 15:
            last = time.monotonic()
            mean = torch.stack(recent[-50:]).mean().item()
            print(f"{label} {last - began:.0f} s, batch {batches}, loss {mean:.4f}", flush=True)
            seconds = seconds_of() or seconds
        if after(batches):
            break
    return {
        "batches": batches,
        "seconds": round(time.monotonic() - began, 1),
        "loss": torch.stack(recent[-100:]).mean().item(),
        "processes": processes,
    }


def _mean_of_processes(value: float) -> float:
    if not distributed.is_initialized():
        return value
    held = torch.tensor([value], dtype=torch.float64)
    distributed.all_reduce(held)
    return float(held) / distributed.get_world_size()


def _average_gradients(model: Model, processes: int) -> None:
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(flat)
    parts = (flat / processes).split([gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


# ---- a generator


def _make_generator(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    model = (load(args.generator) if args.generator else Model(SHAPES[args.size])).to(args.device)
    if args.device == "cuda":
        _compile(model)
    seed = args.seed + 1000 * args.rank  # the same weights, other batches
    torch.manual_seed(seed)
    tokens = int(_BATCH_TOKENS[args.size] * args.batch_scale)
    while len(paths := sorted(args.data.glob("corpus-???.npz"))) < min(8, args.shards):
        time.sleep(0.5)
    state: dict[str, Any] = {"shards": len(paths), "own": None, "turn": 0}
    state["corpus"] = _Batches(_read_rows(paths), tokens, args.device, seed)
    rng = np.random.default_rng(np.random.SeedSequence((seed, 1)))

    def batch_of(progress: float) -> Any:
        found = sorted(args.data.glob("corpus-???.npz")) if state["shards"] < args.shards else []
        if len(found) >= min(args.shards, 2 * state["shards"]):
            state["shards"] = len(found)
            state["corpus"] = _Batches(_read_rows(found), tokens, args.device, seed)
        if progress > (0.5, 0.8, 2)[state["turn"]] and args.own:
            state["turn"] += 1
            rows = _own_revisions(model, args, rng, rounds=state["turn"])
            if rows:  # a model that is hardly trained answers nothing
                state["own"] = _Batches(rows, tokens, args.device, seed)
        own = state["own"] is not None and rng.random() < 1 / 3
        batches = state["own"] if own else state["corpus"]
        return batches.random(LENGTHS[1] if progress < SHORT_FIRST else LENGTHS[-1])

    rate = _PEAK_RATES[args.size]
    fit = _fit(
        model,
        batch_of,
        _generator_loss,
        lambda progress: rate * max(0.02, min(1.0, 1.3 * (1 - progress))),
        args.seconds,
        seconds_of=lambda: _seconds_now(args.data / f"seconds-{args.size}"),
        label=args.size,
    )
    if args.rank:
        return
    save(model.eval(), args.out)
    fit |= {"size": args.size, "parameters": model.parameters_count, "shards": state["shards"]}
    fit |= {"seed": args.seed, "device": _device_name(args.device)}
    (args.out / "training.json").write_text(json.dumps(fit, indent=2) + "\n")
    print(json.dumps(fit), flush=True)


def _compile(model: Model) -> None:
    """Compile the layers, or say why they stay as they are."""
    began = time.monotonic()
    model.compile_layers()
    try:
        for length in LENGTHS[:2]:
            ids = torch.randint(5, 100, (64, length), device="cuda")
            with torch.autocast("cuda", torch.bfloat16):
                model(ids).float().square().mean().backward()
    except Exception as error:  # a machine without a compiler, say
        model.model.compiled = []
        print(f"not compiled: {error!r}"[:500], flush=True)
    model.zero_grad(set_to_none=True)
    print(f"compiled in {time.monotonic() - began:.0f} s", flush=True)


def _seconds_now(path: Path) -> float | None:
    """A time set while the training runs: whoever watches it writes it into this file."""
    return float(path.read_text()) if path.exists() else None


def _own_revisions(
    model: Model, args: argparse.Namespace, rng: np.random.Generator, rounds: int
) -> Rows:
    """Revisions of the model's own answers: first ones, or those of its first revision."""
    began, known = time.monotonic(), hand()
    problems = [steps.draw(rng, LEVELS[i % len(LEVELS)], "train") for i in range(args.own)]
    model.eval()
    shown = chains(model, problems, rounds, _AT_ONCE)[-1]
    model.train()
    examples = []
    for problem, reply in zip(problems, shown, strict=True):
        answer = answer_of(reply)
        if answer is not None and len(answer) <= 2:
            revised, _ = written(problem, rng, known, int(answer))
            examples.append(_example_ids(prompt(problem.question, answer), revised))
    right = np.mean([answer_of(r) == str(p.value) for p, r in zip(problems, shown, strict=True)])
    print(f"{args.size}: own answers right {right:.3f}, {time.monotonic() - began:.0f} s")
    return _padded(examples)


def chains(
    model: Model, problems: Sequence[steps.Problem], rounds: int, at_once: int
) -> list[list[str]]:
    """MR-Thinking: replies by round; a round without an answer is asked plainly again."""
    replies: list[list[str]] = []
    shown: list[str | None] = [None] * len(problems)
    for _ in range(rounds):
        asked = [
            prompt_ids(prompt(problem.question, answer))
            for problem, answer in zip(problems, shown, strict=True)
        ]
        ids = sample(model, asked, most=MOST_NEW, at_once=at_once)
        replies.append([decode(row) for row in ids])
        shown = [answer_of(reply) for reply in replies[-1]]
    return replies


# ---- solutions of a generator, for the verifier and for validation


def _make_solutions(args: argparse.Namespace) -> None:
    """Checked solutions of training questions, half of them revisions, until the time has gone;
    and samples and chains of validation questions, with what they say of the generator."""
    torch.manual_seed(args.seed + 1)
    model, name = load(args.generator, args.device), args.generator.name
    at_once = min(_AT_ONCE, args.solutions)
    began = time.monotonic()
    report = _validated(model, args, at_once)
    print(json.dumps({"generator": name, **report}), flush=True)
    rng = np.random.default_rng(np.random.SeedSequence((args.seed, 2, len(name))))
    examples: list[tuple[list[int], list[int]]] = []
    while not examples or (
        len(examples) < args.solutions and time.monotonic() - began < args.seconds
    ):
        problems = [steps.draw(rng, LEVELS[i % 12], "train") for i in range(at_once)]
        for replies in chains(model, problems, 2, at_once):
            examples += _checked(problems, replies)
    _write_rows(_verifier_rows(examples), args.data / f"solutions-{name}.npz")
    print(f"{name}: {len(examples)} solutions, {time.monotonic() - began:.0f} s", flush=True)


def scored_ids(question: str, reply: str) -> list[int]:
    """What the verifier reads, as its chat template gives it."""
    ids = prompt_ids(question)
    for step in steps_of(reply):
        ids += [*encode(step).tolist(), STEP]
    return [*ids, EOS]


def _checked(
    problems: Sequence[steps.Problem], replies: Sequence[str]
) -> list[tuple[list[int], list[int]]]:
    """Ids with a label a position: 1 right, 0 wrong, -1 where no step ends."""
    examples = []
    for problem, reply in zip(problems, replies, strict=True):
        ids = scored_ids(problem.question, reply)
        verdicts = iter(steps.check_steps(problem, reply))
        if len(ids) <= LENGTHS[-1]:
            examples.append((ids, [int(next(verdicts)) if t == STEP else -1 for t in ids]))
    return examples


def _verifier_rows(examples: Sequence[tuple[list[int], list[int]]]) -> Rows:
    rows = {}
    for length in LENGTHS:
        low = max([other for other in LENGTHS if other < length], default=0)
        group = [pair for pair in examples if low < len(pair[0]) <= length]
        if group:
            ids = np.full((len(group), length), PAD, dtype=np.uint8)
            labels = np.full((len(group), length), -1, dtype=np.int8)
            for row, marks, (tokens, verdicts) in zip(ids, labels, group, strict=True):
                row[: len(tokens)] = tokens
                marks[: len(tokens)] = verdicts
            rows[length] = (ids, labels)
    return rows


def _validated(model: Model, args: argparse.Namespace, at_once: int) -> dict[str, Any]:
    """Chains of 9 rounds and 12 samples of validation questions, written and summed up."""
    rng = np.random.default_rng(np.random.SeedSequence((args.seed, 3)))
    levels = [level for level in steps.LEVELS for _ in range(args.questions)]
    problems = [steps.draw(rng, level, "validation") for level in levels]
    rounds = chains(model, problems, 9, at_once)
    samples = chains(model, [p for p in problems for _ in range(12)], 1, at_once)[0]
    texts = {
        "questions": [problem.question for problem in problems],
        "levels": levels,
        "rounds": rounds,
        "samples": [samples[i * 12 : (i + 1) * 12] for i in range(len(problems))],
    }
    path = args.data / f"validation-{args.generator.name}.json"
    path.write_text(json.dumps(texts))
    golds = [str(problem.value) for problem in problems]
    right = np.array([[answer_of(r) == g for r, g in zip(rs, golds, strict=True)] for rs in rounds])
    sampled = np.array(
        [[answer_of(r) == g for r in rs] for rs, g in zip(texts["samples"], golds, strict=True)]
    )
    by_level: dict[str, Any] = {}
    for level in steps.LEVELS:
        here = np.array(levels) == level
        before, following = right[1:-1, here], right[2:, here]
        a = float((before & ~following).sum() / max(1, before.sum()))
        b = float((~before & following).sum() / max(1, (~before).sum()))
        by_level[str(level)] = {
            "p0": round(float(sampled[here].mean()), 3),
            "sd": round(float(sampled[here].mean(1).std()), 2),
            "rounds": right[:, here].mean(1).round(2).tolist(),
            "a": round(a, 3),
            "b": round(b, 3),
            "L": round(b / max(1e-9, a + b), 3),
            "lag1": round(_correlation(before, following), 2),
            "lag6": round(_correlation(right[1:3, here], right[7:9, here]), 2),
        }
    return by_level


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    if x.std() == 0 or y.std() == 0:
        return math.nan
    return float(np.corrcoef(x.ravel(), y.ravel())[0, 1])


# ---- the verifier


def _make_verifier(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    model = load(args.generator, args.device)
    if model.score is None:
        verifier = Model(model.shape, verifier=True).to(args.device)
        verifier.model.load_state_dict(model.model.state_dict())
        model = verifier
    if args.device == "cuda":
        _compile(model)
    paths = sorted(args.data.glob("solutions-*.npz"))
    batches = _Batches(_read_rows(paths), int(65_536 * args.batch_scale), args.device, args.seed)
    solutions = sum(len(ids) for ids, _ in batches.rows.values())
    validation = _validation(args.data)
    looks: list[dict[str, Any]] = []

    def look(count: int) -> bool:
        save(model.eval(), args.out / f"snapshot-{count}")
        looks.append({"batches": count, **_judged(model, validation, args.device)})
        print(json.dumps(looks[-1]), flush=True)
        model.train()
        return looks[-1]["auc"] > AUC_WANTED + 0.08

    fit = _fit(
        model,
        lambda progress: batches.random(),
        _verifier_loss,
        lambda progress: args.rate,
        args.seconds,
        after=lambda count: count in SNAPSHOTS and look(count),
        label="verifier",
    )
    if not looks or looks[-1]["batches"] < fit["batches"]:
        look(fit["batches"])
    chosen = min(looks, key=lambda seen: abs(seen["auc"] - AUC_WANTED))
    kept = args.out / f"snapshot-{chosen['batches']}"
    save(load(kept), args.out)
    fit |= {"solutions": solutions, "from": [p.name for p in paths], "seed": args.seed}
    fit |= {"parameters": model.parameters_count, "device": _device_name(args.device)}
    fit |= {
        "chosen": chosen,
        "looks": [{k: v for k, v in x.items() if k != "cells"} for x in looks],
    }
    (args.out / "training.json").write_text(json.dumps(fit, indent=2) + "\n")
    print(json.dumps({"chosen": chosen["batches"], "auc": chosen["auc"]}), flush=True)


class _Judged(NamedTuple):
    """Replies of one generator and level: ids, and by question which are right."""

    name: str
    ids: list[list[int]]
    right: np.ndarray
    """(questions, replies)"""


def _validation(folder: Path) -> list[_Judged]:
    cells = []
    for path in sorted(folder.glob("validation-*.json")):
        texts = json.loads(path.read_text())
        for kind in ("samples", "rounds"):
            replies = texts[kind]
            if kind == "rounds":
                replies = [list(column) for column in zip(*replies, strict=True)]
            for level in steps.LEVELS:
                here = [i for i, other in enumerate(texts["levels"]) if other == level]
                golds = [str(steps.parse(texts["questions"][i]).value) for i in here]
                ids = [scored_ids(texts["questions"][i], r) for i in here for r in replies[i]]
                right = np.array(
                    [
                        [answer_of(r) == g for r in replies[i]]
                        for i, g in zip(here, golds, strict=True)
                    ]
                )
                cells.append(_Judged(f"{path.stem[11:]} {level} {kind}", ids, right))
    return cells


def _judged(model: Model, validation: Sequence[_Judged], device: str) -> dict[str, Any]:
    """AUC within a question of each cell, by the mean of the step scores."""
    cells, spread = {}, []
    for cell in validation:
        scores = np.array(
            [float(np.mean(s)) if len(s) else 0.0 for s in step_scores(model, cell.ids, device)]
        )
        cells[cell.name] = auc_within(scores.reshape(cell.right.shape), cell.right)
        spread.append(scores)
    known = [value for value in cells.values() if value is not None]
    quantiles = np.quantile(np.concatenate(spread), (0.05, 0.25, 0.5, 0.75, 0.95))
    return {
        "auc": round(float(np.mean(known)), 3) if known else 0.5,
        "scores": quantiles.round(2).tolist(),
        "cells": {name: value and round(value, 2) for name, value in cells.items()},
    }


@torch.inference_mode()
def step_scores(model: Model, rows: Sequence[list[int]], device: str) -> Iterator[np.ndarray]:
    """P(right) of each step of each row of ids."""
    for start in range(0, len(rows), 2048):
        chunk = rows[start : start + 2048]
        longest = max(map(len, chunk))
        ids = torch.tensor([row + [PAD] * (longest - len(row)) for row in chunk], device=device)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            p_right = model(ids).float().softmax(-1)[..., 1].cpu().numpy()
        for row, scores in zip(chunk, p_right, strict=True):
            yield scores[: len(row)][np.array(row) == STEP]


def auc_within(scores: np.ndarray, right: np.ndarray) -> float | None:
    """P(a right answer scores above a wrong one of the same question), ties half; by pairs."""
    above = pairs = 0.0
    for row, mask in zip(scores, right, strict=True):
        good, bad = row[mask], row[~mask]
        difference = good[:, None] - bad[None]
        above += float((difference > 0).sum() + 0.5 * (difference == 0).sum())
        pairs += difference.size
    return above / pairs if pairs else None


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


if __name__ == "__main__":
    raise SystemExit(main())
