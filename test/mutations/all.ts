import type { Change } from '../support/source-copy.ts'
import { access } from './access.ts'
import { audit } from './audit.ts'
import { flowModels } from './flow-models.ts'
import { logins } from './logins.ts'
import type { Mistakes } from './mistakes.ts'
import { money } from './money.ts'
import { queue } from './queue.ts'
import { secrets } from './secrets.ts'

export type Mistake = { name: string; changes: readonly Change[]; tests: Mistakes['tests'] }

/** All that are made, one at a time. */
export const mistakes: readonly Mistake[] = [
  secrets,
  access,
  logins,
  audit,
  money,
  queue,
  flowModels,
]
  .flat()
  .flatMap(({ file, tests, made }) =>
    Object.entries(made).map(([name, texts]) => ({
      name,
      tests,
      changes: texts.flatMap((find, index) =>
        index % 2 === 0 ? [{ file, find, replace: texts[index + 1] ?? '' }] : [],
      ),
    })),
  )
