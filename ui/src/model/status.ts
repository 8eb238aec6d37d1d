/** How a phase is shown: one tone and one shape each, never colour alone. */
import type { Schema } from "@/api/client";

export type Phase = Schema<"Phase">;
export type Tone = "running" | "pending" | "completed" | "failed" | "stopped" | "over";
export type Shape = "disc" | "ring" | "clock" | "tick" | "alert" | "half" | "pause" | "cross" | "question";

const SHOWN: Record<Phase, { tone: Tone; shape: Shape }> = {
  Running: { tone: "running", shape: "disc" },
  Creating: { tone: "running", shape: "ring" },
  Initializing: { tone: "running", shape: "ring" },
  Pending: { tone: "pending", shape: "clock" },
  Completed: { tone: "completed", shape: "tick" },
  Failed: { tone: "failed", shape: "alert" },
  Degraded: { tone: "failed", shape: "half" },
  Stopped: { tone: "stopped", shape: "pause" },
  Deleting: { tone: "stopped", shape: "cross" },
  Deleted: { tone: "stopped", shape: "cross" },
};

export function shown(phase: string): { tone: Tone; shape: Shape } {
  return SHOWN[phase as Phase] ?? { tone: "stopped", shape: "question" };
}

export const ENDED: readonly string[] = ["Completed", "Failed", "Stopped", "Deleted"];

export function isWaiting(workload: { phase: string }): boolean {
  return workload.phase === "Pending" || workload.phase === "Creating";
}
