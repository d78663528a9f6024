import { EventEmitter } from 'node:events'
import { expect, test } from 'vitest'
import { createReadTurns } from '../../src/http/read-turns.ts'

/** What stands for the answer of a request: `close` says that the client has disconnected. */
class Response extends EventEmitter {
  closed = false
  disconnect(): void {
    this.closed = true
    this.emit('close')
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

function begin(limits = { perOwner: 2, total: 3 }, waiting = { perOwner: 3, total: 5 }) {
  const turns = createReadTurns({ running: limits, waiting })
  const order: string[] = []
  const ends = new Map<string, () => void>()
  const ask = (owner: string, name: string, response = new Response()) =>
    turns.take(owner, response as never).then(
      (end) => {
        order.push(name)
        ends.set(name, end)
      },
      (error) => void order.push(`${name} ${error.code}`),
    )
  return { ask, order, end: (name: string) => ends.get(name)?.() }
}

test('reads of one owner run two at a time, and those of another do not wait for its queue', async () => {
  const { ask, order, end } = begin()
  for (const name of ['a1', 'a2', 'a3', 'a4']) void ask('a', name)
  void ask('b', 'b1')
  await settled()
  expect(order).toEqual(['a1', 'a2', 'b1'])
  void ask('b', 'b2')
  void ask('c', 'c1')
  end('a1')
  await settled()
  end('a2')
  await settled()
  end('b1')
  await settled()
  // In turns: the one that has just begun comes last.
  expect(order.slice(3)).toEqual(['a3', 'b2', 'c1'])
  end('c1')
  await settled()
  expect(order.slice(6)).toEqual(['a4'])
})

test('beyond its waiting room an owner is refused, and in total too', async () => {
  const { ask, order } = begin()
  for (let index = 1; index <= 6; index += 1) void ask('a', `a${index}`)
  await settled()
  expect(order).toEqual(['a1', 'a2', 'a6 RATE_LIMITED'])
  for (let index = 1; index <= 4; index += 1) void ask('b', `b${index}`)
  await settled()
  expect(order.slice(3)).toEqual(['b1', 'b4 RATE_LIMITED'])
})

test('a client that disconnects leaves its place, and its turn goes to the next', async () => {
  const { ask, order, end } = begin({ perOwner: 1, total: 1 })
  const gone = new Response()
  void ask('a', 'a1')
  void ask('a', 'a2', gone)
  void ask('a', 'a3')
  await settled()
  gone.disconnect()
  await settled()
  end('a1')
  // A second end changes nothing.
  end('a1')
  await settled()
  expect(order).toEqual(['a1', 'a2 CALLER_GONE', 'a3'])
  void ask('b', 'b1')
  await settled()
  expect(order).toHaveLength(3)
  end('a3')
  await settled()
  expect(order.slice(3)).toEqual(['b1'])
})
