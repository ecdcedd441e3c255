// Calls judged from Node with nothing but the .proto files, and prints what came back as JSON.
//
//   node judge.mjs ADDRESS PROTO_FOLDER
//
// ADDRESS is HOST:PORT or unix:PATH. Every function below is one thing a Node team would do.

import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";
import health from "grpc-health-check";

const DEADLINE_MS = 20_000;
const STATUS_DETAILS = "grpc-status-details-bin";

const [address, protoFolder] = process.argv.slice(2);
if (protoFolder === undefined) {
  console.error("usage: node judge.mjs ADDRESS PROTO_FOLDER");
  process.exit(2);
}

// keepCase: names as in the .proto. longs: 64-bit counts as numbers, exact up to 2^53.
const READING = { keepCase: true, longs: Number, enums: String, defaults: true };

const definition = protoLoader.loadSync(
  [
    "judged/v1/judge_service.proto",
    "judged/v1/statistics_service.proto",
    "judged/internal/v1/status.proto",
  ],
  { ...READING, includeDirs: [protoFolder] },
);
const healthDefinition = protoLoader.loadSync(health.protoPath, READING);
const { JudgeService, StatisticsService } = grpc.loadPackageDefinition(definition).judged.v1;
const { Health } = grpc.loadPackageDefinition(healthDefinition).grpc.health.v1;

const credentials = grpc.credentials.createInsecure();
const judged = new JudgeService(address, credentials);
const statistics = new StatisticsService(address, credentials);
const healthClient = new Health(address, credentials);

const EXPECTED = [
  "rag combines retrieval with generation for better accuracy",
  "retrieval augmented generation improves llm responses",
];
const RETRIEVED = [
  "rag is a technique that combines retrieval with generation",
  "vector databases store embeddings",
];
const CLASSIC = { kind: "token_overlap", profile: "classic" };

/** Promise of a unary call's response. Every call has a deadline. */
function call(client, method, request) {
  return new Promise((resolve, reject) => {
    const options = { deadline: Date.now() + DEADLINE_MS };
    client[method](request, options, (error, response) => {
      if (error) reject(error);
      else resolve(response);
    });
  });
}

/** Reads google.rpc.Status from the trailers: details by message name, for example BadRequest. */
function statusDetails(error) {
  const [raw] = error.metadata.get(STATUS_DETAILS);
  const status = definition["judged.internal.v1.Status"].deserialize(raw);
  return Object.fromEntries(
    status.details.map(({ type_url, value }) => {
      const name = type_url.split(".").pop();
      return [name, definition[`judged.internal.v1.${name}`].deserialize(value)];
    }),
  );
}

async function checkHealth() {
  const { status } = await call(healthClient, "check", { service: "judged.v1.JudgeService" });
  return status;
}

async function serverInfo() {
  const info = await call(judged, "GetServerInfo", {});
  return {
    version: info.version,
    default_judge: info.default_judge,
    judges: info.judges.map(({ kind, profile }) => (profile ? `${kind}/${profile}` : kind)),
    metrics: info.metrics.map(({ name }) => name),
    max_contexts: info.limits.max_contexts,
  };
}

/** Two groups: with a query that shares words with the texts, and with one that does not. */
async function batchJudge() {
  const groups = ["how does retrieval help rag", "what is it"].map((query) => ({
    query,
    expected: EXPECTED,
    retrieved: RETRIEVED,
  }));
  const { verdicts, judge, counts } = await call(judged, "BatchJudge", { groups, judge: CLASSIC });
  return {
    relevant: verdicts.relevant,
    score: verdicts.score,
    status: verdicts.status, // empty: every verdict is OK
    group_offsets: verdicts.group_offsets,
    signature: judge.signature,
    counts: { ok: counts.ok, relevant: counts.relevant },
  };
}

/** A bad field: the status says what is wrong, its details say where. */
async function badRequest() {
  const groups = [{ query: "q", expected: ["a"], retrieved: ["a", "b"], document_ids: ["only one"] }];
  try {
    await call(judged, "BatchJudge", { groups, judge: CLASSIC });
  } catch (error) {
    const { ErrorInfo, BadRequest } = statusDetails(error);
    return {
      code: grpc.status[error.code],
      reason: ErrorInfo.reason,
      domain: ErrorInfo.domain,
      fields: BadRequest.field_violations.map(({ field }) => field),
    };
  }
  throw new Error("a group with one id for two documents was accepted");
}

async function computeMetrics() {
  const documents = ["d1", "d5", "d2", "d9"];
  const { table } = await call(judged, "ComputeMetrics", {
    metrics: ["recall@4", "ndcg@4"],
    trec: {
      qrels: [{ query_id: "q1", document_ids: ["d1", "d2", "d3"], grades: [1, 1, 1] }],
      run: [{ query_id: "q1", document_ids: documents }],
    },
  });
  return Object.fromEntries(table.metrics.map(({ name, mean }) => [name, mean]));
}

/** Compares two runs by their values: the other service, on the same server. */
async function compareRuns() {
  const run = (name, values) => ({
    name,
    values: { query_ids: ["q1", "q2", "q3"], columns: [{ values }] },
  });
  const { comparisons } = await call(statistics, "CompareRuns", {
    metrics: ["ndcg@10"],
    runs: [run("old", [0.1, 0.5, 0.3]), run("new", [0.2, 0.7, 0.6])],
  });
  const [{ baseline, run: compared, difference, wins, losses }] = comparisons;
  return { baseline, run: compared, difference: difference.value, wins, losses };
}

/** Two chunks down one stream; answers come as chunks finish, in any order. */
function streamJudge() {
  return new Promise((resolve, reject) => {
    const stream = judged.StreamJudge({ deadline: Date.now() + DEADLINE_MS });
    const answers = { started: null, chunks: {}, contexts_done: 0 };
    stream.on("data", ({ started, chunk }) => {
      if (started) answers.started = started.judge.kind;
      if (chunk) {
        answers.chunks[chunk.chunk_id] = chunk.verdicts.relevant;
        answers.contexts_done = Math.max(answers.contexts_done, chunk.progress.contexts_done);
      }
    });
    stream.on("error", reject);
    stream.on("end", () => resolve(answers));
    stream.write({ start: { judge: { kind: "exact", profile: "normalized" } } });
    const group = { query: "", expected: ["The  Answer"], retrieved: ["the answer", "another"] };
    stream.write({ chunk: { chunk_id: 7, groups: [group] } });
    stream.write({ chunk: { chunk_id: 8, groups: [group, group] } });
    stream.end();
  });
}

try {
  const report = {
    health: await checkHealth(),
    info: await serverInfo(),
    batch: await batchJudge(),
    bad_request: await badRequest(),
    metrics: await computeMetrics(),
    compared: await compareRuns(),
    stream: await streamJudge(),
  };
  console.log(JSON.stringify(report, null, 2));
} finally {
  judged.close();
  statistics.close();
  healthClient.close();
}
