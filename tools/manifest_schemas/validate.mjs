// Validates custom resources: a JSON list of objects on stdin, a JSON list of faults on stdout.
//
// The validators are made from the schemas of the operators' own types. Those let unknown fields
// pass, as an API server does that then drops them; here they are faults. A compiled validator asks
// an object for every field that its schema knows, so a field it never asked for is unknown.

import { readFileSync } from "node:fs";
import * as certManager from "@kubernetes-models/cert-manager/cert-manager.io/v1";
import * as keda from "@kubernetes-models/keda/keda.sh/v1alpha1";
import * as prometheus from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1";

const MODELS = {
  "cert-manager.io/v1": certManager,
  "keda.sh/v1alpha1": keda,
  "monitoring.coreos.com/v1": prometheus,
};

/** Wraps a value so that `watched` collects what is asked of it and of all inside. */
function watch(value, path, watched) {
  if (value === null || typeof value !== "object") return value;
  const look = { value, path, asked: new Set(), walked: false };
  watched.push(look);
  const inside = new Map();
  return new Proxy(value, {
    get(target, key) {
      if (typeof key !== "string") return target[key];
      look.asked.add(key);
      if (!inside.has(key)) inside.set(key, watch(target[key], `${path}/${key}`, watched));
      return inside.get(key);
    },
    ownKeys(target) {
      look.walked = true; // a map: any key will do
      return Reflect.ownKeys(target);
    },
  });
}

/** Fields that nobody asked for, of objects with a schema of their own. */
function unknown({ value, path, asked, walked }) {
  if (Array.isArray(value) || walked || asked.size === 0) return [];
  return Object.keys(value).filter((key) => !asked.has(key)).map((key) => `${path}/${key}`);
}

function faults(object) {
  const Model = MODELS[object.apiVersion]?.[object.kind];
  if (Model === undefined) return [`no schema of ${object.apiVersion} ${object.kind}`];
  const watched = [];
  try {
    Model.prototype.validate.call(watch(object, "", watched));
  } catch (error) {
    return [error.message];
  }
  return watched.flatMap(unknown).map((path) => `unknown field ${path}`);
}

const objects = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(objects.map(faults)));
