import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { copySource } from '../support/source-copy.ts'
import { plantedBugs } from './planted-bugs.ts'

export type PlantedResult = { name: string; isSeen: boolean; line: string }

/** Puts each of the bugs into a copy of the source and runs rounds there until one fails, `runs` flows at most. */
export async function runPlanted(
  options: { runs: number; seed: number; only: string | undefined },
  report: (result: PlantedResult) => void,
): Promise<PlantedResult[]> {
  const copy = await copySource()
  const results: PlantedResult[] = []
  const sound = new Map<number, boolean>()
  /** A failure that also occurs without the bug does not count. */
  const isSoundWithout = async (folder: string, seed: number) => {
    const known = sound.get(seed) ?? (await runThere(folder, { runs: 20, seed })).code === 0
    sound.set(seed, known)
    return known
  }
  try {
    for (const bug of plantedBugs) {
      if (options.only !== undefined && !bug.name.startsWith(options.only)) continue
      const takeBack = await copy.plant(bug.name, bug.changes)
      const { code, output } = await runThere(copy.folder, options)
      await takeBack()
      const lines = output.split('\n')
      const line = lines.find((one) => one.startsWith('seed ')) ?? lines.at(-1) ?? ''
      const failed = /^seed (\d+):/.exec(line)?.[1]
      // In so few runs other events may be missing too; only the event that the bug silences counts.
      const isMissed = bug.silences !== undefined && line.includes(bug.silences)
      const isSound = failed === undefined || (await isSoundWithout(copy.folder, Number(failed)))
      const result = {
        name: bug.name,
        isSeen: code === 1 && isSound && (failed !== undefined || isMissed),
        line: isSound ? line : `seed ${failed} fails without it: ${line}`,
      }
      results.push(result)
      report(result)
    }
  } finally {
    await copy.remove()
  }
  return results
}

function runThere(
  folder: string,
  { runs, seed }: { runs: number; seed: number },
): Promise<{ code: number | null; output: string }> {
  const script = join(folder, 'test/flow-faults/main.ts')
  // Shorter than in a run without bugs, since most bugs keep source and target from agreement.
  const short = ['--rest', '60']
  const args = [script, '--until-failed', ...short, '--runs', String(runs), '--seed', String(seed)]
  const child = spawn(process.execPath, args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk) => {
      output += chunk
    })
  }
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, output: output.trim() }))
  })
}
