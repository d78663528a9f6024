import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

// T51: what an expression may do to the process stands in mapping-bombs.test.ts; here is what its operator sees of it.

let flows: TestFlows
let target: TestTarget
beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows()
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

// As text: in an object literal __proto__ would set the prototype.
const json = `[
  {"id": "1", "text": "${'a'.repeat(40)}!"},
  {"id": "__proto__", "text": "a", "constructor": {"prototype": {"isAdmin": true}}},
  {"id": "3", "text": "a", "__proto__": {"isAdmin": true}}
]`

async function load(name: string, map: string | undefined): Promise<void> {
  await flows.write(`${name}.json`, json)
  const flow = jsonFlow(name, target.url)
  const [web] = flow.destinations as Record<string, unknown>[]
  const retry = { attempts: 1, initial: '100ms', max: '100ms', jitter: 0 }
  flow.destinations = [{ ...web, retry, ...(map !== undefined && { map }) }]
  await flows.write(`${name}.flow.yaml`, flow)
}

type FlowError = { entity: string; error: string; pk: string }
const errorsOf = async (name: string): Promise<FlowError[]> =>
  (await flows.call('GET', `/errors?flow=${name}`)).json()
const got = (name: string) => target.received.filter(({ path }) => path.startsWith(`/${name}/`))

test('T51: a bomb in a flow ends as an error record that names it, and other flows continue', {
  tags: ['long'],
}, async () => {
  const bombs: Record<string, [map: string, told: RegExp]> = {
    regex: ['{ "id": id, "is": $contains(text, /^(a+)+$/) }', /used more than/],
    recursion: [
      '($f := function($n){ $f($n + 1) + 1 }; $f(1))',
      /used more than|deep|stack|recurs/i,
    ],
    range: ['$count([1..1000000000])', /range|sequence|large|longer|10 million|1e7/i],
    text: [`(${'$t := $string($t) & $string($t) & "xx"; '.repeat(60)} $t)`, /longer than/],
  }
  for (const [name, [map]] of Object.entries(bombs)) await load(name, map)
  await load('plain', undefined)
  await flows.flows.reload('test')
  await Promise.all(
    [...Object.keys(bombs), 'plain'].map((name) => flows.call('POST', `/sync/${name}?force=true`)),
  )
  await flows.delivered()
  for (const [name, [, told]] of Object.entries(bombs)) {
    const errors = (await errorsOf(name)).filter(({ pk }) => pk === '1')
    expect(errors, name).toHaveLength(1)
    expect(errors[0]?.error, name).toMatch(told)
    expect(got(name).map(({ path }) => path)).not.toContain(`/${name}/1`)
  }
  expect(
    got('plain')
      .map(({ path }) => path)
      .sort(),
  ).toEqual(['/plain/1', '/plain/__proto__'])
})

test('T51: a record that names prototypes is data or an error record, and changes no prototype', async () => {
  await load('prototypes', undefined)
  await flows.flows.reload('test')
  await flows.call('POST', '/sync/prototypes?force=true')
  await flows.delivered()
  const [body] = got('prototypes').filter(({ path }) => path.endsWith('__proto__'))
  expect(body?.body).toMatchObject({ constructor: { prototype: { isAdmin: true } } })
  expect(await errorsOf('prototypes')).toMatchObject([
    { pk: '3', error: expect.stringContaining('__proto__') },
  ])
  expect(({} as Record<string, unknown>).isAdmin).toBeUndefined()
})

test('T51: a flow file whose aliases would multiply is a problem of that file', async () => {
  const levels = Array.from({ length: 9 }, (_, level) =>
    level === 0
      ? `x0: &x0 [${Array(10).fill('lol').join(', ')}]`
      : `x${level}: &x${level} [${Array(10)
          .fill(`*x${level - 1}`)
          .join(', ')}]`,
  )
  await flows.write('laughs.flow.yaml', `version: 1\nname: laughs\n${levels.join('\n')}\n`)
  const started = performance.now()
  await flows.flows.reload('test')
  expect(performance.now() - started).toBeLessThan(10_000)
  const problems = (await flows.call('GET', '/flows')).body
  expect(problems).toContain('laughs.flow.yaml')
  expect(problems).toContain('alias')
})
