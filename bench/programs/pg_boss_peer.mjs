// pg-boss, run in its own environment: `prepare`, `submit` or `work`, then a DSN.

import { PgBoss } from "pg-boss";
import { payload, submitInBatches } from "./talk.mjs";

const [command, dsn] = process.argv.slice(2);
const QUEUE = "noop";

async function started() {
  const boss = new PgBoss({ connectionString: dsn, max: 10 });
  boss.on("error", (error) => process.stderr.write(`${error}\n`));
  await boss.start();
  return boss;
}

const commands = {
  async prepare() {
    const boss = await started();
    await boss.createQueue(QUEUE);
    await boss.stop({ graceful: false });
  },
  async submit() {
    const boss = await started();
    const job = { data: payload() };
    await submitInBatches((count) => boss.insert(QUEUE, Array(count).fill(job)));
    await boss.stop({ graceful: false });
  },
  async work() {
    const boss = await started();
    const options = {
      batchSize: 500,
      localConcurrency: 4,
      burstWhenBatchFull: true,
      pollingIntervalSeconds: 0.5,
    };
    await boss.work(QUEUE, options, async () => {});
  },
};

await commands[command]();
