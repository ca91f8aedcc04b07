// Checks one specification. Standard input: {spec, cfg, constants, max_states, max_depth, dot}; standard output: the verdict.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { check_spec_with_cfg, initSync } from "tla-checker";

const wasm = createRequire(import.meta.url).resolve("tla-checker/tla_checker_bg.wasm");
initSync({ module: readFileSync(wasm) });
const { spec, cfg, max_states, max_depth, dot } = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(check_spec_with_cfg(spec, cfg, "{}", max_states, max_depth, true, dot));
