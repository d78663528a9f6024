import { spawn } from 'node:child_process'

export type Part = {
  name: string
  command: string
  args: readonly string[]
  /** Its output appears while it runs; that of the others when they end. */
  isShownAtOnce?: boolean
}

/** Runs all parts at the same time, each to its end, and returns the names of those that failed. */
export async function runSideBySide(
  parts: readonly Part[],
  print: (text: string) => void,
): Promise<string[]> {
  const failed = await Promise.all(
    parts.map(async (part) => {
      const { output, how } = await run(part)
      const isGood = how === 0
      if (!part.isShownAtOnce)
        print(`\n== ${part.name}: ${isGood ? 'passed' : `FAILED (${how})`}\n${output}`)
      return isGood ? [] : [part.name]
    }),
  )
  return failed.flat()
}

/** `how` is the exit code, or the signal or the error that ended it. */
function run({
  command,
  args,
  isShownAtOnce,
}: Part): Promise<{ output: string; how: number | string }> {
  return new Promise((resolve) => {
    const stdio = isShownAtOnce ? 'inherit' : (['ignore', 'pipe', 'pipe'] as const)
    const child = spawn(command, args, { stdio: stdio as 'inherit' })
    const chunks: Buffer[] = []
    const collect = (chunk: Buffer) => chunks.push(chunk)
    child.stdout?.on('data', collect)
    child.stderr?.on('data', collect)
    child.on('error', (error) => resolve({ output: '', how: error.message }))
    child.on('close', (code, signal) =>
      resolve({ output: Buffer.concat(chunks).toString(), how: code ?? String(signal) }),
    )
  })
}
