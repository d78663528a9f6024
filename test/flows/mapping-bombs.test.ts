import { expect, test } from 'vitest'
import { compileMapping, MappingError } from '../../src/flows/deliver/item-body.ts'
import { createThread } from '../../src/flows/mapping/evaluation-thread.ts'

/** Processor time of the process, which other threads share. On a busy machine it takes longer. */
const limitMs = 2_000
const item = {
  text: `${'a'.repeat(40)}!`,
  list: Array.from({ length: 1_000 }, (_, index) => index),
  one: 1,
}

/** One of each kind: memory and time, in the evaluator and inside a single call. */
const usual = [
  'endless recursion',
  'endless tail recursion',
  'a range of 1e9',
  'a list times itself',
  'text doubled by statements',
  'regex (a+)+$',
  'sort that calls back',
  'deep list',
]
const bombs: Record<string, string> = {
  'endless recursion': '($f := function($n){ $f($n + 1) + 1 }; $f(1))',
  'endless tail recursion': '($f := function($n){ $f($n + 1) }; $f(1))',
  'mutual recursion': '($f := function($n){ $g($n) }; $g := function($n){ $f($n) }; $f(1))',
  fibonacci: '($f := function($n){ $n < 2 ? $n : $f($n - 1) + $f($n - 2) }; $f(60))',
  'a range of 1e9': '[1..1000000000]',
  'a range of 1e7, five times':
    '($a := [1..9999999]; $b := [1..9999999]; $c := [1..9999999]; $d := [1..9999999]; $e := [1..9999999]; 1)',
  'a range of all doubles': '[-9007199254740991..9007199254740991]',
  'ranges in ranges': '[1..100000].[1..100000]',
  'ranges in ranges, six deep': '[1..99].([1..99].([1..99].([1..99].([1..99].[1..99]))))',
  'a list times itself': 'list.($$.list.($$.list.($$.list)))',
  'a list times itself, inside the process': 'list.$$.list.$$.list.$$.list.one',
  'descendants of descendants': '**.**.**.**.**.**.**.**',
  'text doubled forty times':
    '($f := function($t, $n){ $n = 0 ? $t : $f($t & $t, $n - 1) }; $length($f(text, 40)))',
  'text doubled by statements': `(${'$t := $string($t) & $string($t) & "xx"; '.repeat(60)} $t)`,
  'padding of 1e9': '$pad("x", 1000000000)',
  'padding of -1e9': '$pad("x", -1000000000, "abc")',
  'padding with long text': '$pad("x", 2000000000, $pad("y", 900000))',
  'regex (a+)+$': '$match(text, /^(a+)+$/)',
  'regex (a|aa)+$': '$contains(text, /^(a|aa)+$/)',
  'regex (a*)*$': '$replace(text, /^(a*)*$/, "")',
  'regex with a backreference': '$split(text, /(a+)+\\1+$/)',
  'regex with lookahead': '$contains(text, /^(?=(a+)+$).*/)',
  'regex by context': 'text ~> /^(([a-z])+.)+[A-Z]([a-z])+$/',
  'distinct of 100,000': '$count($distinct([1..100000]))',
  'append by reduce': '$count($reduce([1..100000], $append))',
  'sort that calls back': '$sort([1..100000], function($a, $b){ $a < $b })',
  'shuffles of shuffles': '$map([1..100000], function($i){ $shuffle([1..1000]) })',
  'replace that multiplies': `(${'$t := $replace($string($t) & "aaaa", "a", "aaaaaaaaaa"); '.repeat(30)} $length($t))`,
  'join that multiplies': '$length($join([1..100000].$pad("x", 100000)))',
  // Adjacent digits have a width each and end immediately; numbers in letters do not.
  'date picture with many numbers': `$toMillis(text, "${'[Da]'.repeat(12)}")`,
  'number in words': '$formatInteger(1e308, "w")',
  'sift over a large object':
    '($o := $merge([1..50000].{ $string($): $ }); $count($keys($sift($o, function($v){ $v > 1 and $count($keys($o)) > 1 }))))',
  'zip and merge': '$map([1..100000], function($i){ $zip([1..1000], [1..1000]) })',
  'partial application': '($f := function($a, $b){ $f($b, ?) }; $g := $f(1, ?); $g(1)(2)(3))',
  'deep list': '($f := function($l, $n){ $n = 0 ? $l : $f([[$l]], $n - 1) }; $f([], 100000))',
  'transform in transform': '$ ~> |**|{ "a": [1..100000] }|',
}

/** Waits until the thread has restarted, which takes time on a busy machine. */
const threadIsReady = () => compileMapping({ map: '$sum([1..3])' }).apply({})

const endsInTime =
  'T51: %s ends after 2 s of processor time at most, with an answer or a MappingError'

async function expectEnd(name: string): Promise<void> {
  const map = bombs[name]
  if (map === undefined) throw new Error(`no bomb has the name "${name}"`)
  await threadIsReady()
  const started = process.cpuUsage()
  const mapping = compileMapping({ map })
  const outcome = await mapping.apply(item).then(
    (body) => ({ body }),
    (error: unknown) => ({ error }),
  )
  const { user, system } = process.cpuUsage(started)
  expect((user + system) / 1_000).toBeLessThan(limitMs)
  if ('error' in outcome) expect(outcome.error).toBeInstanceOf(MappingError)
  // A mapping may also end without a value.
  else expect((JSON.stringify(outcome.body) ?? '').length).toBeLessThan(10_000_000)
}

test.each(usual)(endsInTime, { tags: ['long'] }, expectEnd)
test.each(Object.keys(bombs).filter((name) => !usual.includes(name)))(
  endsInTime,
  { tags: ['night'] },
  expectEnd,
)

/** They fill the memory in a second of a processor, with lists inside a call and with lists of the evaluator. */
const usualFillers = ['zip and merge', 'ranges in ranges']
const otherFillers = ['shuffles of shuffles', 'join that multiplies']
const endsInSpace =
  'T51: with processor time to spare, %s ends with a failure before it uses 500 MB'

// V8 may end the whole process when a thread's heap is full, so an evaluation ends long before its thread's limit of 1 GiB.
async function expectNoFlood(name: string): Promise<void> {
  const thread = createThread({ cpuMs: 20_000, heapBytes: 134_217_728 })
  const text = bombs[name] as string
  const before = process.memoryUsage.rss()
  let most = 0
  const sampling = setInterval(() => {
    most = Math.max(most, process.memoryUsage.rss() - before)
  }, 10)
  const outcome = await new Promise((resolve, reject) =>
    thread.add({ owner: {}, request: { text, value: item }, resolve, reject }),
  ).catch((error: unknown) => error)
  clearInterval(sampling)
  expect(outcome).toMatchObject({ why: { code: 'EXPRESSION_OUT_OF_MEMORY' } })
  expect(most).toBeLessThan(500_000_000)
}

test.each(usualFillers)(endsInSpace, { tags: ['long'] }, expectNoFlood)
test.each(otherFillers)(endsInSpace, { tags: ['night'] }, expectNoFlood)

test('after a bomb the next mapping works, and so do the mappings that waited', {
  tags: ['long'],
}, async () => {
  const bomb = compileMapping({ map: '$match(text, /^(a+)+$/)' }).apply(item)
  const behind = [1, 2, 3].map((n) =>
    compileMapping({ map: `$map([${n}], function($n){ $n * 10 })` }).apply({}),
  )
  await expect(bomb).rejects.toThrow('used more than')
  expect(await Promise.all(behind)).toEqual([10, 20, 30])
})

test('while a regular expression runs for long the rest of the process continues', {
  tags: ['long'],
}, async () => {
  const bomb = compileMapping({ map: '$match(text, /^(a+)+$/)' }).apply(item)
  const before = performance.now()
  await new Promise((resolve) => setTimeout(resolve, 10))
  expect(performance.now() - before).toBeLessThan(300)
  await expect(bomb).rejects.toBeInstanceOf(MappingError)
})
