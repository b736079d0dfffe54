// What this worker can do: job type to handler. A handler gets the job and an AbortSignal that
// fires when its work is no longer wanted; it returns bytes, or throws to fail.

import { createHash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

export const handlers = {
  // SHA-256 of the payload.
  hash: async (job) => Buffer.from(createHash("sha256").update(job.payload).digest("hex")),

  // Waits so many seconds as the payload says, telling how far it is.
  wait: async (job, { signal, progress }) => {
    const seconds = Number(job.payload.toString());
    for (let done = 0; done < 10; done += 1) {
      await progress(done * 10, `${done} of 10 steps`);
      await pause(seconds * 100, undefined, { signal });
    }
    return Buffer.from("waited");
  },
};
