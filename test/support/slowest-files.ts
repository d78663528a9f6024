import type { Reporter, TestModule } from 'vitest/node'

const shown = 5

/** Names the files that took longest, beside the time of all. */
export class SlowestFiles implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const secondsOf = (module: TestModule) => module.diagnostic().duration / 1_000
    const slowest = modules.toSorted((a, b) => secondsOf(b) - secondsOf(a)).slice(0, shown)
    const all = modules.reduce((sum, module) => sum + secondsOf(module), 0)
    const names = slowest.map(
      (module) => `${module.relativeModuleId} ${secondsOf(module).toFixed(1)} s`,
    )
    process.stdout.write(
      `\nAll tests: ${all.toFixed(0)} s of workers. Slowest: ${names.join(', ')}\n`,
    )
  }
}
