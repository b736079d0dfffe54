// WorkerService as promises. Every call has a deadline; one that the server did not hear is sent
// again, because all of them may be repeated.

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const HERE = dirname(fileURLToPath(import.meta.url));
const PROTOS = process.env.JQ_PROTO_DIR ?? join(HERE, "..", "..", "proto");
const TRIES = 5;
const CALL_MS = 5_000;

export const { status } = grpc;

export class Service {
  constructor(address, apiKey) {
    const file = join("jobqueue", "v1", "worker_service.proto");
    if (!existsSync(join(PROTOS, file))) throw new Error(`there is no ${file} in ${PROTOS}`);
    const loaded = loadSync(file, {
      includeDirs: [PROTOS],
      keepCase: true,
      longs: String,
      enums: String,
      defaults: true,
    });
    const { WorkerService } = grpc.loadPackageDefinition(loaded).jobqueue.v1;
    this.metadata = new grpc.Metadata();
    if (apiKey) this.metadata.set("authorization", `Bearer ${apiKey}`);
    this.client = new WorkerService(address, grpc.credentials.createInsecure(), {
      "grpc.max_receive_message_length": 36 * 1024 * 1024,
      "grpc.keepalive_time_ms": 30_000,
      "grpc.keepalive_timeout_ms": 10_000,
      "grpc.initial_reconnect_backoff_ms": 200,
      "grpc.max_reconnect_backoff_ms": 2_000,
    });
  }

  async call(method, request) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#once(method, request);
      } catch (error) {
        if (attempt === TRIES || !isTransient(error)) throw error;
        await pause(100 * 2 ** attempt * (0.5 + Math.random()));
      }
    }
  }

  #once(method, request) {
    return new Promise((resolve, reject) => {
      const options = { deadline: Date.now() + CALL_MS };
      this.client[method](request, this.metadata, options, (error, answer) =>
        error ? reject(error) : resolve(answer),
      );
    });
  }

  stream(request) {
    return this.client.StreamJobs(request, this.metadata);
  }

  close() {
    this.client.close();
  }
}

// CANCELLED: a server that ends cuts off what it had not looked at.
const TRANSIENT = [status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.ABORTED, status.CANCELLED];

export function isTransient(error) {
  return TRANSIENT.includes(error.code);
}
