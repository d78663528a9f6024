import type { SourceCopy } from '../support/source-copy.ts'
import { changesOf, type Mistake } from './mistake.ts'

/** What failed in the copy of the source. */
export type Failure = {
  what: string
  /** Runs the same once more; false when it fails again. */
  passesAgain(): Promise<boolean>
}

/** Runs until something fails; undefined when nothing does, an error when the check itself cannot run. */
export type Check = () => Promise<Failure | undefined>

export type Verdict = { isNoticed: boolean; why: string }

/** A mistake is noticed when the check fails with it, and the same passes without it. */
export async function judge(copy: SourceCopy, mistake: Mistake, check: Check): Promise<Verdict> {
  try {
    const failure = await checkWith(copy, mistake, check)
    if (!failure) return { isNoticed: false, why: 'nothing failed' }
    if (await failure.passesAgain()) return { isNoticed: true, why: failure.what }
    return { isNoticed: false, why: `fails without the mistake too: ${failure.what}` }
  } catch (error) {
    return { isNoticed: false, why: error instanceof Error ? error.message : String(error) }
  }
}

async function checkWith(copy: SourceCopy, mistake: Mistake, check: Check) {
  const takeBack = await copy.plant(mistake.name, changesOf(mistake))
  try {
    return await check()
  } finally {
    await takeBack()
  }
}
