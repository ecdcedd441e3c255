// Says what of a request would not be sent. docs/proto.md shows these functions to copy.

/** Throws where `request` has something that would not be sent: a name or an enum that is not known. */
function check(method, request) {
  compare(request, method.requestDeserialize(method.requestSerialize(request)), "");
}

function compare(given, sent, path) {
  if (given === undefined || given === null) return;
  if (typeof given === "object" && !ArrayBuffer.isView(given)) {
    for (const [key, value] of Object.entries(given)) {
      compare(value, sent?.[key], Array.isArray(given) ? `${path}[${key}]` : `${path}.${key}`);
    }
  } else if (!ArrayBuffer.isView(given) && String(given) !== String(sent)) {
    throw new TypeError(`request${path}: ${JSON.stringify(given)} would be sent as ${JSON.stringify(sent)}`);
  }
}

export { check };
