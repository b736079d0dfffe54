// The conversation of a Node.js program with the harness, as in talk.py.

import { createInterface } from "node:readline";

export const PAYLOAD_BYTES = 100;

function say(words) {
  process.stdout.write(JSON.stringify(words) + "\n");
}

// Stores as many jobs as ordered, or as many as `seconds` allow, and says how many: `callers` at
// once, `batch` jobs each.
export async function submitInBatches(submit) {
  say({ ready: true });
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    const deadline = performance.now() + order.seconds * 1000;
    let left = order.jobs;
    const call = async () => {
      while (left > 0 && performance.now() < deadline) {
        const count = Math.min(order.batch, left);
        left -= count;
        await submit(count);
      }
    };
    await Promise.all(Array.from({ length: order.callers }, call));
    say({ stored: order.jobs - left });
  }
}

// Returns an object that is as long in JSON as every system's payload.
export function payload() {
  return { p: "x".repeat(PAYLOAD_BYTES - '{"p":""}'.length) };
}
