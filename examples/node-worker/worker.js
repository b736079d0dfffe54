// A remote worker: register, take jobs as they come, start, run, report; renew all the while.
//
//     node worker.js --server localhost:50051 --queues default --concurrency 4
//
// The rules it follows are those of docs/remote-workers.md. SIGTERM lets running jobs finish.

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";

import { handlers } from "./handlers.js";
import { Service, status } from "./service.js";

const RESULT_TRIES_S = 30;

const log = (message, more = {}) => console.log(JSON.stringify({ message, ...more }));
const toMs = ({ seconds, nanos }) => Number(seconds) * 1_000 + nanos / 1e6;
const LONGEST_MS = 2 ** 31 - 1; // of a timer in Node; a longer one would fire at once

// A job without a type is for the handler named like its queue, else for "default". Types are
// chosen by whoever submits: "constructor" must not find what every object has.
function handlerOf({ type, queue }) {
  const name = type || (Object.hasOwn(handlers, queue) ? queue : "default");
  return Object.hasOwn(handlers, name) ? handlers[name] : undefined;
}

class Worker {
  constructor(service, facts) {
    this.service = service;
    this.facts = facts;
    // lease → { job, stop, provenAt }: whatever was sent and not yet settled
    this.held = new Map();
    this.ending = false;
    this.asked = new Promise((resolve) => {
      this.end = resolve;
    });
  }

  async run() {
    await this.register();
    log("ready", { worker_id: this.facts.worker_id });
    const beating = this.beat();
    const doubting = setInterval(() => this.doubt(), this.trustMs / 40);
    const receiving = this.receive();
    await this.asked;
    this.ending = true;
    await this.stopTaking();
    await receiving;
    while (this.held.size > 0) await pause(20);
    this.settled = true;
    await beating;
    clearInterval(doubting);
    await this.service
      .call("Deregister", { session: this.session })
      // It is shown as OFFLINE, and pruned in time.
      .catch((error) => log("cannot deregister", { why: error.message }));
    log("stopped");
  }

  async register() {
    const answer = await this.service.call("Register", this.facts);
    this.session = answer.session;
    this.beatMs = Math.min(toMs(answer.renew_interval), toMs(answer.heartbeat_interval));
    this.trustMs = 0.9 * toMs(answer.lease_duration); // a margin before the server's end
  }

  // Beats and renews until everything is settled: also while it drains.
  async beat() {
    while (!this.settled) {
      const sentAt = performance.now();
      try {
        this.hear(await this.heartbeat(), sentAt);
      } catch (error) {
        if (error.code === status.NOT_FOUND) await this.register().catch(() => {});
        else log("cannot renew", { why: error.message });
      }
      await pause(this.settled ? 0 : Math.min(this.beatMs, 1_000));
    }
  }

  heartbeat() {
    const request = { session: this.session, draining: this.ending || this.draining, leases: [...this.held.keys()] };
    return this.service.call("Heartbeat", request);
  }

  hear({ command, renewed, lost, cancelled }, sentAt) {
    this.prove(renewed, sentAt);
    this.lose(lost);
    for (const lease of cancelled) this.held.get(lease)?.stop.abort("CANCELLED");
    if (command === "COMMAND_DRAIN" && !this.draining) {
      log("draining");
      this.draining = true;
      this.stopTaking();
    }
    if (command === "COMMAND_SHUTDOWN") this.end();
  }

  // Trust counts from when the call was sent: the server's count begins later.
  prove(leases, sentAt) {
    for (const lease of leases) {
      const hold = this.held.get(lease);
      if (hold) hold.provenAt = Math.max(hold.provenAt, sentAt);
    }
  }

  // On a timer of its own: a renewal that nobody answers must not keep the end of trust waiting.
  doubt() {
    const oldest = performance.now() - this.trustMs;
    const lapsed = [...this.held].filter(([, { provenAt }]) => provenAt <= oldest);
    this.lose(lapsed.map(([lease]) => lease));
  }

  lose(leases) {
    for (const lease of leases) {
      const hold = this.held.get(lease);
      if (!hold) continue;
      log("lost", { job_id: hold.job.job_id });
      this.held.delete(lease);
      hold.stop.abort("LOST");
    }
  }

  // Keeps a stream of jobs open; after a cut it says which jobs it still has.
  async receive() {
    for (let waitMs = 100; !this.ending && !this.draining; waitMs = Math.min(2 * waitMs, 2_000)) {
      await new Promise((resolve) => {
        this.stream = this.service.stream({ session: this.session, held: [...this.held.keys()] });
        this.stream.on("data", ({ job }) => {
          waitMs = 100;
          this.take(job);
        });
        this.stream.on("error", resolve);
        this.stream.on("end", resolve);
      });
      if (!this.ending) await pause(waitMs * (0.5 + Math.random()));
    }
  }

  take(job) {
    if (this.ending || this.draining) return; // not held: it is handed back as a stray
    const stop = new AbortController();
    this.held.set(job.lease, { job, stop, provenAt: performance.now() });
    this.execute(job, stop.signal)
      // It cannot be started or reported: not renewed any more, its lease runs out.
      .catch((error) => log("a job broke", { job_id: job.job_id, why: error.message }))
      .finally(() => this.held.delete(job.lease));
  }

  async execute(job, signal) {
    const result = handlerOf(job)
      ? await this.attempt(job, signal)
      : { outcome: "OUTCOME_NO_HANDLER", detail: `no handler for ${job.type || "no type"}` };
    if (result && signal.reason !== "LOST") await this.report(job, result);
  }

  // Returns what came of it; nothing when it may not be run.
  async attempt(job, signal) {
    const request = { session: this.session, leases: [job.lease] };
    const sentAt = performance.now();
    const { starts } = await this.service.call("StartJobs", request);
    if (starts[0].state !== "STATE_STARTED" || !this.held.has(job.lease)) return null;
    this.prove([job.lease], sentAt);
    log("started", { job_id: job.job_id, type: job.type });
    const progress = (percent, message) => this.progress(job, percent, message);
    const limit = job.run_timeout ? AbortSignal.timeout(Math.min(toMs(job.run_timeout), LONGEST_MS)) : signal;
    try {
      const both = { signal: AbortSignal.any([signal, limit]), progress };
      return { outcome: "OUTCOME_DONE", result: await handlerOf(job)(job, both) };
    } catch (error) {
      if (signal.reason === "CANCELLED") return { outcome: "OUTCOME_CANCELLED", detail: "as asked" };
      if (limit.aborted) return { outcome: "OUTCOME_TIMED_OUT", detail: "took too long" };
      return { outcome: "OUTCOME_FAILED", detail: `${error.name}: ${error.message}` };
    }
  }

  progress(job, percent, message) {
    const words = [{ lease: job.lease, percent, message }];
    // For people only: not worth failing a job for.
    return this.service
      .call("ReportProgress", { session: this.session, progress: words })
      .catch(() => {});
  }

  // Safe to repeat: an outcome that is recorded already answers the same.
  async report(job, result) {
    const until = performance.now() + RESULT_TRIES_S * 1_000;
    const results = [{ lease: job.lease, ...result }];
    for (;;) {
      try {
        const answer = await this.service.call("ReportResults", { session: this.session, results });
        log("reported", { job_id: job.job_id, outcome: result.outcome, ...answer.reports[0] });
        return;
      } catch (error) {
        if (performance.now() > until) throw error;
        await pause(500);
      }
    }
  }

  // What was sent and is not held is not run here any more, and nobody else may run it until it is
  // handed back, or its lease runs out.
  async stopTaking() {
    this.stream?.cancel();
    const held = [...this.held.keys()];
    await this.service
      .call("ReleaseJobs", { session: this.session, strays: true, held })
      .catch((error) => log("cannot hand back", { why: error.message }));
  }
}

const { values: flags } = parseArgs({
  options: {
    server: { type: "string", default: process.env.JQ_SERVER_ADDR ?? "localhost:50051" },
    queues: { type: "string", default: "default" },
    concurrency: { type: "string", default: "4" },
    "worker-id": { type: "string" },
  },
});
const name = `${hostname().replace(/[^A-Za-z0-9._-]/g, "-")}-${process.pid}`;
const worker = new Worker(new Service(flags.server, process.env.JQ_API_KEY), {
  worker_id: flags["worker-id"] ?? `${name}-${randomBytes(4).toString("hex")}`,
  hostname: hostname(),
  pid: process.pid,
  queues: flags.queues.split(","),
  types: Object.keys(handlers),
  concurrency: Number(flags.concurrency),
  prefetch: 0,
  version: "node-example 0.1.0",
});
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => worker.end());
await worker.run();
worker.service.close();
