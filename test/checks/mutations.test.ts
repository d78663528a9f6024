import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { mistakes } from '../mutations/all.ts'
import { createChecks } from '../mutations/checks.ts'
import { judge } from '../mutations/judge.ts'
import { changesOf, type Mistake } from '../mutations/mistake.ts'
import { copySource } from '../support/source-copy.ts'

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')

test.each(mistakes)('each text of the mistake occurs once in the source: $name', (mistake) => {
  for (const { file, find } of changesOf(mistake))
    expect(read(file).split(find), file).toHaveLength(2)
  expect(Object.keys(mistake.noticedBy)).not.toEqual([])
  for (const [file, title = ''] of mistake.noticedBy.tests ?? [])
    expect(read(file), file).toContain(title)
})

test('each mistake has a name of its own', () => {
  const names = mistakes.map(({ name }) => name)
  expect(names).toEqual([...new Set(names)])
})

const [mistake] = mistakes as readonly [Mistake]

/** A copy of the source in which nothing is changed. */
function fakeCopy() {
  const takeBack = vi.fn(async () => {})
  const plant = vi.fn(async () => takeBack)
  return { folder: '/nowhere', plant, takeBack, remove: async () => {} }
}

test('a mistake is noticed by a failure that does not occur without it', async () => {
  const copy = fakeCopy()
  const passesAgain = vi.fn(async () => {
    expect(copy.takeBack).toHaveBeenCalledOnce()
    return true
  })
  const verdict = await judge(copy, mistake, async () => {
    expect(copy.plant).toHaveBeenCalledWith(mistake.name, changesOf(mistake))
    expect(copy.takeBack).not.toHaveBeenCalled()
    return { what: 'a test', passesAgain }
  })
  expect(verdict).toEqual({ isNoticed: true, why: 'a test' })
})

test('a mistake is missed when nothing fails, or when the failure also occurs without it', async () => {
  expect(await judge(fakeCopy(), mistake, async () => undefined)).toEqual({
    isNoticed: false,
    why: 'nothing failed',
  })
  const failure = { what: 'a test', passesAgain: async () => false }
  expect(await judge(fakeCopy(), mistake, async () => failure)).toEqual({
    isNoticed: false,
    why: 'fails without the mistake too: a test',
  })
})

test('a mistake is missed when its check cannot run, and is taken back', async () => {
  const copy = fakeCopy()
  const verdict = await judge(copy, mistake, async () => {
    throw new Error('the file does not load')
  })
  expect(verdict).toEqual({ isNoticed: false, why: 'the file does not load' })
  expect(copy.takeBack).toHaveBeenCalledOnce()
})

test('a mistake that does not fit leaves the copy of the source as it was', {
  tags: ['long'],
}, async () => {
  const copy = await copySource()
  try {
    const fits = { file: 'package.json', find: '"name": "tillbridge"', replace: '' }
    const changes = [fits, { ...fits, find: 'a text that is not there' }]
    await expect(copy.plant('two changes', changes)).rejects.toThrow('does not fit package.json')
    expect(await readFile(join(copy.folder, 'package.json'), 'utf8')).toBe(read('package.json'))
  } finally {
    await copy.remove()
  }
})

const event = 'a clock was set'

test.each([
  ['happens without it', 3, true],
  ['does not happen without it either', 0, false],
])('a mistake that silences an event: the event %s', async (_, without, passesAgain) => {
  const folder = await mkdtemp(join(tmpdir(), 'mutations-'))
  const script = join(folder, 'test/flow-faults/main.ts')
  const print = (count: number) =>
    `console.log('  ${String(count).padStart(6)} x ${event}'); process.exitCode = 1`
  try {
    await mkdir(join(script, '..'), { recursive: true })
    await writeFile(script, print(0))
    const failure = await createChecks(folder)['flow-faults'](event)
    expect(failure?.what).toBe(`never happened: ${event}`)
    await writeFile(script, print(without))
    expect(await failure?.passesAgain()).toBe(passesAgain)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
