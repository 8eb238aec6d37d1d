"""The sample trainer: what the documented quickstart images run on a machine without containers.

Fits a small network to made-up data, in NumPy where there is some and in plain Python elsewhere. It does everything a
good training should: prints epoch, loss, accuracy and the time left, saves checkpoints, resumes from the latest one,
saves once more and exits on SIGTERM, and reports its progress.

Other images' options (`--dataset_dir`, `--num_devices`, …) are accepted and shown. One file, put into the pod.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import signal
import sys
import time
from typing import Any

np: Any = None
with contextlib.suppress(ImportError):
    import numpy as np

Reporter: Any = None
with contextlib.suppress(ImportError):
    from fairpool_reporter import Reporter  # type: ignore[import-not-found,no-redef]

CHECKPOINT = "checkpoint.json"
FEATURES, EXAMPLES, RATE = 16, 512, 0.5
STOPPED = 143
"""128 and the number of SIGTERM: it exited on SIGTERM, with its work saved."""


def main(arguments: list[str]) -> int:
    """Train to the end, or until SIGTERM; the exit code."""
    options, others = _parser().parse_known_args(arguments)
    directory = options.checkpoint_dir or os.environ.get("FAIRPOOL_CHECKPOINT_DIR", "")
    training = Training(options, directory)
    signal.signal(signal.SIGTERM, training.on_notice)
    _say(f"GPUs: {os.environ.get('RUNAI_NUM_OF_GPUS', '0')}, arithmetic: {'NumPy' if np else 'plain Python'}")
    if others:
        _say(f"options of the image: {' '.join(others)}")
    training.resume()
    training.run()
    if training.is_stopping:
        saved = "saved a checkpoint" if training.save() else "stopping"
        _say(f"received SIGTERM: {saved} after epoch {training.epoch}, step {training.step}")
        return STOPPED
    _say(f"finished {training.epoch} epochs, loss {training.loss:.4f}, accuracy {training.accuracy:.4f}")
    return 0


class Training:
    """A logistic regression by gradient descent, in as many slow steps as one likes."""

    def __init__(self, options: argparse.Namespace, directory: str) -> None:
        self.epochs, self.steps, self.step_s = options.epochs, options.steps, options.step_seconds
        self.path = os.path.join(directory, CHECKPOINT) if directory else ""
        self.saves = os.environ.get("RANK", "0") == "0"
        """Pods of one run share the directory, and all know the same: one of them writes it down."""
        self.epoch = self.step = 0
        self.is_stopping = False
        self.loss, self.accuracy = math.log(2), 0.5
        self.weights = [0.0] * FEATURES
        self.data = _examples(options.seed)
        self.reporter: Any = Reporter() if Reporter is not None else None

    def resume(self) -> None:
        """Go on from the latest checkpoint, if there is one that can be read."""
        try:
            with open(self.path, encoding="utf-8") as file:
                saved = json.load(file)
            epoch, step, weights = int(saved["epoch"]), int(saved["step"]), [float(each) for each in saved["weights"]]
            loss, accuracy = float(saved["loss"]), float(saved["accuracy"])
            if len(weights) != FEATURES:
                raise ValueError(f"expected {FEATURES} weights, found {len(weights)}")
        except FileNotFoundError:
            _say("no checkpoint: starting from the beginning")
            return
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            _say(f"the checkpoint cannot be read ({error}): starting from the beginning")
            return
        self.epoch, self.step, self.weights, self.loss, self.accuracy = epoch, step, weights, loss, accuracy
        _say(f"resuming from the checkpoint after epoch {self.epoch}, step {self.step}")

    def save(self) -> bool:
        """Atomically: a job that is killed here still has the previous one. Returns whether it was saved."""
        if not self.path or not self.saves:
            return False
        directory, new = os.path.dirname(self.path), f"{self.path}.{os.getpid()}.new"
        saved = {"epoch": self.epoch, "step": self.step, "weights": self.weights}
        try:
            os.makedirs(directory, exist_ok=True)
            with open(new, "w", encoding="utf-8") as file:
                json.dump({**saved, "loss": self.loss, "accuracy": self.accuracy}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self.path)
            handle = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:  # to go on without is better than to stop: there may be room the next time
            with contextlib.suppress(OSError):
                os.unlink(new)
            _say(f"could not save a checkpoint: {error}")
            return False
        return True

    def run(self) -> None:
        began, first = time.monotonic(), self.epoch * self.steps + self.step
        self._report()
        while self.epoch < self.epochs:
            _say(f"Epoch {self.epoch + 1}/{self.epochs}")
            while self.step < self.steps:
                self.weights, self.loss, self.accuracy = _descend(self.weights, self.data)
                self.step += 1
                self._show(began, first)
                self._rest()
                if self.is_stopping:
                    return
            self.epoch, self.step = self.epoch + 1, 0
            self.save()
            self._report()

    def on_notice(self, _number: int, _frame: object) -> None:
        """Only a mark: whatever is being done is finished first, so that a checkpoint is never of half a step."""
        self.is_stopping = True

    def _rest(self) -> None:
        until = time.monotonic() + self.step_s
        while not self.is_stopping and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))

    def _show(self, began: float, first: int) -> None:
        done = self.epoch * self.steps + self.step
        each_s = (time.monotonic() - began) / max(1, done - first)
        if self.step % max(1, self.steps // 10) and self.step != self.steps:
            return
        left_s = each_s * (self.epochs * self.steps - done)
        _say(
            f"{self.step:>4}/{self.steps} - ETA: {_duration(left_s)} - loss: {self.loss:.4f} - "
            f"acc: {self.accuracy:.4f} - {each_s * 1000:.0f}ms/step"
        )

    def _report(self) -> None:
        if self.reporter is not None:
            self.reporter.progress(self.epoch, self.epochs)
            self.reporter.reportMetric("loss", self.loss)
            self.reporter.reportMetric("accuracy", self.accuracy)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="A sample training job that saves checkpoints, resumes and reports progress."
    )
    parser.add_argument("--epochs", type=int, default=int(os.environ.get("EPOCHS", "60")))
    parser.add_argument("--steps", type=int, default=100, help="steps in an epoch")
    parser.add_argument("--step-seconds", type=float, default=0.1, help="how long a step takes besides computing")
    parser.add_argument("--checkpoint-dir", default="", help="default: FAIRPOOL_CHECKPOINT_DIR")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def _examples(seed: int) -> tuple[Any, Any]:
    """Points on two sides of a plane, a few of them on the wrong one."""
    dice = random.Random(seed)
    plane = [dice.gauss(0, 1) for _ in range(FEATURES)]
    points = [[dice.gauss(0, 1) for _ in range(FEATURES)] for _ in range(EXAMPLES)]
    sides = [float(sum(p * w for p, w in zip(point, plane)) + dice.gauss(0, 0.5) > 0) for point in points]  # noqa: B905
    return (np.array(points), np.array(sides)) if np else (points, sides)


def _descend(weights: list[float], data: tuple[Any, Any]) -> tuple[list[float], float, float]:
    """One step: the weights after it, the loss and the accuracy before it."""
    points, sides = data
    if np:
        guesses = 1 / (1 + np.exp(-(points @ np.array(weights))))
        loss = -np.mean(sides * np.log(guesses + 1e-9) + (1 - sides) * np.log(1 - guesses + 1e-9))
        after = np.array(weights) - RATE * (points.T @ (guesses - sides)) / len(sides)
        return after.tolist(), float(loss), float(np.mean((guesses > 0.5) == (sides > 0.5)))
    guesses = [1 / (1 + math.exp(-sum(p * w for p, w in zip(point, weights)))) for point in points]  # noqa: B905
    pairs = list(zip(guesses, sides))  # noqa: B905
    loss = -sum(math.log((g if s else 1 - g) + 1e-9) for g, s in pairs) / len(pairs)
    slopes = [sum((g - s) * point[i] for (g, s), point in zip(pairs, points)) for i in range(FEATURES)]  # noqa: B905
    after = [w - RATE * slope / len(pairs) for w, slope in zip(weights, slopes)]  # noqa: B905
    return after, loss, sum((g > 0.5) == (s > 0.5) for g, s in pairs) / len(pairs)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
