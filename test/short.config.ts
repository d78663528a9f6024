import { mergeConfig } from 'vitest/config'
import { leftOut } from './support/left-out.ts'
import all from './vitest.config.ts'

/** What `npm test` runs: all but what `.ci/run` plays besides. */
export default mergeConfig(all, { test: { exclude: [...leftOut] } })
