import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { prepareData } from '../support/pglite-template.ts'

type Compiled = { index: string; by: string; bytes: number; size: number }

/** V8's trace of each function of WebAssembly: its compiler, the memory, and the function's size. */
async function compiledIn(dataDir: string): Promise<Compiled[]> {
  const script = fileURLToPath(new URL('child-parser.ts', import.meta.url))
  const child = spawn(process.execPath, ['--trace-wasm-compilation-times', script, dataDir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const line = /#(\d+) using (Liftoff|TurboFan), took \d+ ms and (\d+)[^;]* bytes; bodysize (\d+)/g
  return Array.from(
    (await text(child.stdout)).matchAll(line),
    ([, index = '', by = '', bytes, size]) => ({
      index,
      by,
      bytes: Number(bytes),
      size: Number(size),
    }),
  )
}

test('however much the embedded database parses, V8 never compiles its parser a second time, which takes 600 MB', {
  tags: ['long'],
}, async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'tillbridge-'))
  try {
    await prepareData(dataDir)
    const compiled = await compiledIn(dataDir)
    const first = compiled.filter(({ by }) => by === 'Liftoff')
    const parser = first.toSorted((one, next) => next.size - one.size)[0]
    expect(parser?.size).toBeGreaterThan(50_000)
    const again = compiled.filter(({ by }) => by === 'TurboFan')
    // What runs often is compiled a second time as ever.
    expect(again.length).toBeGreaterThan(50)
    expect(again.filter(({ index }) => index === parser?.index)).toEqual([])
    expect(Math.max(...again.map(({ bytes }) => bytes))).toBeLessThan(100_000_000)
  } finally {
    await rm(dataDir, { recursive: true })
  }
})
