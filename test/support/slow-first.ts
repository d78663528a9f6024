import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Whole processes and schedules of faults: short files that take long. */
const slow = /\/test\/(process|faults)\/|\/process-flows\.test\.ts$/

/** As usual, after the slow files: none of them may be left for the end, when the other worker has nothing to do. */
export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const isSlow = ({ moduleId }: TestSpecification) => Number(slow.test(moduleId))
    return sorted.toSorted((a, b) => isSlow(b) - isSlow(a))
  }
}
