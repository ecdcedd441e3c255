// What proto-loader passes over without a word, how `check` tells it, and the limit of replies.
//
//   node passed_over.mjs ADDRESS PROTO_FOLDER

import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

import { check } from "./check.mjs";

const [address, protoFolder] = process.argv.slice(2);
const definition = protoLoader.loadSync("judged/v1/judge_service.proto", {
  includeDirs: [protoFolder],
  keepCase: true,
  longs: Number,
  enums: String,
  defaults: true,
});
const { JudgeService } = grpc.loadPackageDefinition(definition).judged.v1;

const group = { query: "q", expected: ["a"], retrieved: ["a", "b"] };
const good = {
  groups: [group],
  judge: { kind: "token_overlap", min_score: 0.5, parameters: { min_tokens: { int_value: 2 } } },
  asking: { cache: "CACHE_MODE_ONLY", max_cost: 0.25 },
};
const LOST = {
  enum_name: { ...good, asking: { cache: "ONLY" } },
  field_name: { ...good, judge: { kind: "token_overlap", minimum_score: 0.5 } },
  camel_case: { ...good, judge: { kind: "token_overlap", minScore: 0.5 } },
  in_a_list: { ...good, groups: [group, { ...group, document_id: ["d1", "d2"] }] },
  not_a_boolean: { ...good, include_details: "false" },
};

/** The message of the error that `work` throws, null when it throws none. */
function thrown(work) {
  try {
    work();
  } catch (error) {
    return error.message;
  }
  return null;
}

/** The code of a call with 500,000 verdicts, whose reply has 4.5 MB. */
function codeOfLargeReply(options) {
  const client = new JudgeService(address, grpc.credentials.createInsecure(), options);
  const texts = (n) => Array.from({ length: n }, (_, i) => `${i}`);
  const request = {
    groups: [{ query: "", expected: texts(500), retrieved: texts(1000) }],
    judge: { kind: "exact" },
  };
  return new Promise((resolve) => {
    client.BatchJudge(request, { deadline: Date.now() + 60_000 }, (error) => {
      client.close();
      resolve(grpc.status[error ? error.code : 0]);
    });
  });
}

const { BatchJudge, Evaluate } = JudgeService.service;
const mode = (matching) => ({
  groups: [group],
  metrics: ["recall"],
  options: { verdicts: { matching } },
});
const checks = { good: thrown(() => check(BatchJudge, good)) };
for (const [name, request] of Object.entries(LOST)) {
  checks[name] = thrown(() => check(BatchJudge, request));
}
checks.full_mode = thrown(() => check(Evaluate, mode("MATCHING_MODE_MAXIMUM")));
checks.short_mode = thrown(() => check(Evaluate, mode("MAXIMUM")));
console.log(
  JSON.stringify({
    checks,
    large_reply: await codeOfLargeReply({}),
    large_reply_with_a_higher_limit: await codeOfLargeReply({
      "grpc.max_receive_message_length": 64 * 1024 * 1024,
    }),
  }),
);
