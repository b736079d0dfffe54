// graphile-worker, run in its own environment: `prepare`, `submit` or `work`, then a DSN.

import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { payload, submitInBatches } from "./talk.mjs";

const [command, dsn] = process.argv.slice(2);
// Its default logger writes a line for every job.
const logger = new Logger(() => (level, message) => {
  if (level === "error") process.stderr.write(message + "\n");
});

const commands = {
  async prepare() {
    await runMigrations({ connectionString: dsn, logger });
  },
  async submit() {
    const utils = await makeWorkerUtils({ connectionString: dsn, logger });
    const spec = { identifier: "noop", payload: payload() };
    await submitInBatches((count) => utils.addJobs(Array(count).fill(spec)));
    await utils.release();
  },
  async work() {
    const preset = {
      worker: {
        connectionString: dsn,
        concurrentJobs: 24,
        maxPoolSize: 25,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    };
    const runner = await run({ preset, logger, taskList: { noop: () => {} } });
    await runner.promise;
  },
};

await commands[command]();
