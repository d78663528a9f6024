import { expect, test } from 'vitest'
import { createPoller, type PollerDeps, type PollOutcome } from '../../src/flows/poll/poll-loop.ts'
import { LeaseLostError } from '../../src/jobs/with-lease.ts'

const intervalMs = 60_000

/** A poller on a clock that its own naps move: time passes only while it sleeps. */
function create(options: Partial<PollerDeps> = {}) {
  let nowMs = 1_000_000
  let lastPollAt: Date | null = null
  const polls: number[] = []
  const failures: unknown[] = []
  const until = Promise.withResolvers<void>()
  let stopAtMs = Number.POSITIVE_INFINITY
  const poller = createPoller({
    poll: async () => {
      polls.push(nowMs)
      lastPollAt = new Date(nowMs)
      return { changes: 1, rowsRead: 1 }
    },
    leads: () => true,
    mayPoll: async () => true,
    lastPollAt: async () => lastPollAt,
    intervalMs: () => intervalMs,
    plannedAfter: (last) => new Date(last.getTime() + intervalMs),
    now: () => new Date(nowMs),
    sleep: async (ms, signal) => {
      signal.throwIfAborted()
      nowMs += ms
      if (nowMs >= stopAtMs) until.resolve()
      // Lets timers and sockets run.
      await new Promise((resolve) => setImmediate(resolve))
    },
    onFailure: (error) => failures.push(error),
    ...options,
  })
  return {
    poller,
    polls,
    failures,
    now: () => nowMs,
    jump: (ms: number) => {
      nowMs += ms
    },
    setLastPoll: (at: Date | null) => {
      lastPollAt = at
    },
    /** Runs until that much time has passed. */
    async run(ms: number) {
      stopAtMs = nowMs + ms
      poller.start()
      await until.promise
      await poller.stop()
    },
  }
}

test('a flow is polled at once, and then an interval after the end of each poll', async () => {
  const one = create()
  await one.run(3 * intervalMs + 500)
  const gaps = one.polls.slice(1).map((at, index) => at - (one.polls[index] ?? 0))
  expect(one.polls.length).toBe(4)
  expect(gaps).toEqual([intervalMs, intervalMs, intervalMs])
})

test('after downtime there is one poll, not several', async () => {
  const one = create()
  one.setLastPoll(new Date(one.now()))
  one.jump(100 * intervalMs)
  await one.run(intervalMs - 1_000)
  expect(one.polls).toHaveLength(1)
})

test('a clock that is set back by a day does not stop a flow for a day', async () => {
  const one = create()
  one.setLastPoll(new Date(one.now() + 86_400_000))
  await one.run(intervalMs)
  expect(one.polls).toHaveLength(1)
})

test('a poll that a process with a clock ahead has just ended is not repeated', async () => {
  const one = create()
  one.setLastPoll(new Date(one.now() + 5_000))
  await one.run(intervalMs - 1_000)
  expect(one.polls).toEqual([])
})

test('a flow that may not poll is not polled, and is polled soon after it may', async () => {
  let allowed = false
  const one = create({ mayPoll: async () => allowed })
  const began = one.now()
  setTimeout(() => {
    allowed = true
  }, 20)
  one.poller.start()
  await expect.poll(() => one.polls.length).toBeGreaterThan(0)
  await one.poller.stop()
  expect(one.polls[0]).toBeGreaterThan(began)
})

test('a failed poll is reported, and the next poll follows', async () => {
  let failing = true
  const one = create({
    poll: async () => {
      if (!failing) return { changes: 0, rowsRead: 0 }
      failing = false
      throw new Error('down')
    },
  })
  await one.run(3_000)
  expect(one.failures).toHaveLength(1)
})

test('requests during a poll share the next one', async () => {
  const gates: PromiseWithResolvers<PollOutcome>[] = []
  const one = create({
    poll: () => {
      const gate = Promise.withResolvers<PollOutcome>()
      gates.push(gate)
      return gate.promise
    },
  })
  const first = one.poller.request({ force: false })
  const others = [
    one.poller.request({ force: false }),
    one.poller.request({ force: false }),
    one.poller.request({ force: false }),
  ]
  expect(gates).toHaveLength(1)
  gates[0]?.resolve({ changes: 1, rowsRead: 1 })
  expect(await first).toEqual({ changes: 1, rowsRead: 1 })
  await expect.poll(() => gates.length).toBe(2)
  gates[1]?.resolve({ changes: 2, rowsRead: 2 })
  expect(await Promise.all(others)).toEqual(Array(3).fill({ changes: 2, rowsRead: 2 }))
  expect(gates).toHaveLength(2)
})

test('a shared poll is forced when one of its requests forces it, and the poll after it is not', async () => {
  const gates: PromiseWithResolvers<PollOutcome>[] = []
  const forced: boolean[] = []
  const one = create({
    poll: ({ force }) => {
      const gate = Promise.withResolvers<PollOutcome>()
      gates.push(gate)
      forced.push(force)
      return gate.promise
    },
  })
  const outcome = { changes: 0, rowsRead: 0 }
  const first = one.poller.request({ force: false })
  const shared = [true, false].map((force) => one.poller.request({ force }))
  gates[0]?.resolve(outcome)
  await first
  await expect.poll(() => gates.length).toBe(2)
  const last = one.poller.request({ force: false })
  gates[1]?.resolve(outcome)
  await Promise.all(shared)
  await expect.poll(() => gates.length).toBe(3)
  gates[2]?.resolve(outcome)
  await last
  expect(forced).toEqual([false, true, false])
})

test('a request after a failed poll leads to a new poll', async () => {
  const gates: PromiseWithResolvers<PollOutcome>[] = []
  const one = create({
    poll: () => {
      const gate = Promise.withResolvers<PollOutcome>()
      gates.push(gate)
      return gate.promise
    },
  })
  const first = one.poller.request({ force: false })
  const second = one.poller.request({ force: false })
  gates[0]?.reject(new Error('down'))
  await expect(first).rejects.toThrow('down')
  await expect.poll(() => gates.length).toBe(2)
  gates[1]?.resolve({ changes: 0, rowsRead: 0 })
  expect(await second).toEqual({ changes: 0, rowsRead: 0 })
})

test('a request waits until another process has ended its poll', async () => {
  let tries = 0
  const one = create({
    poll: async () => (++tries < 4 ? undefined : { changes: 3, rowsRead: 3 }),
  })
  expect(await one.poller.request({ force: false })).toEqual({ changes: 3, rowsRead: 3 })
  expect(tries).toBe(4)
})

test('stop waits for the running poll and begins no other', async () => {
  const gate = Promise.withResolvers<PollOutcome>()
  let polls = 0
  const one = create({
    poll: () => {
      polls += 1
      return gate.promise
    },
  })
  one.poller.start()
  await expect.poll(() => polls).toBe(1)
  let stopped = false
  const stopping = one.poller.stop().then(() => {
    stopped = true
  })
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect([one.poller.isPolling, stopped]).toEqual([true, false])
  gate.resolve({ changes: 0, rowsRead: 0 })
  await stopping
  expect([one.poller.isPolling, polls]).toEqual([false, 1])
})

test('the check whether a flow may poll runs only when a poll is due, since it counts waiting rows', async () => {
  let asked = 0
  const one = create({
    mayPoll: async () => {
      asked += 1
      return true
    },
  })
  await one.run(3 * intervalMs + 500)
  expect(one.polls).toHaveLength(4)
  expect(asked).toBe(4)
})

test('a poll that is due tomorrow costs a statement in ten seconds, and is not late', async () => {
  const dayMs = 24 * 60 * 60_000
  let reads = 0
  const lastPoll = new Date(1_000_000 - dayMs + 10 * 60_000)
  const polls: number[] = []
  const one = create({
    plannedAfter: (last) => new Date(last.getTime() + dayMs),
    intervalMs: () => dayMs,
    lastPollAt: async () => {
      reads += 1
      return polls.length > 0 ? new Date(one.now()) : lastPoll
    },
    poll: async () => {
      polls.push(one.now())
      return { changes: 0, rowsRead: 0 }
    },
  })
  await one.run(11 * 60_000)
  expect(polls).toEqual([1_000_000 + 10 * 60_000])
  expect(reads).toBeLessThan(60 + 60 + 20)
})

test('exclusive work delays polls, and does not begin during one', async () => {
  const polled = Promise.withResolvers<PollOutcome>()
  const worked = Promise.withResolvers<void>()
  const events: string[] = []
  const one = create({
    poll: () => {
      events.push('poll')
      return polled.promise
    },
  })
  const work = () => {
    events.push('work')
    return worked.promise
  }
  const aside = one.poller.runExclusive(work)
  const request = one.poller.request({ force: false })
  expect(await one.poller.runExclusive(work)).toBe(false)
  expect(events).toEqual(['work'])
  worked.resolve()
  expect(await aside).toBe(true)
  await expect.poll(() => events).toEqual(['work', 'poll'])
  expect(await one.poller.runExclusive(work)).toBe(false)
  polled.resolve({ changes: 2, rowsRead: 2 })
  expect(await request).toEqual({ changes: 2, rowsRead: 2 })
  expect(events).toEqual(['work', 'poll'])
})

test('a failure of exclusive work is returned to its caller, and polls continue', async () => {
  const one = create()
  const work = async () => {
    throw new Error('no database')
  }
  await expect(one.poller.runExclusive(work)).rejects.toThrow('no database')
  expect(await one.poller.request({ force: false })).toEqual({ changes: 1, rowsRead: 1 })
})

test('a hint makes the next poll due, also during a poll, and several count as one', async () => {
  const one = create({
    poll: async () => {
      one.polls.push(one.now())
      one.setLastPoll(new Date(one.now()))
      if (one.polls.length === 2) for (let hints = 0; hints < 100; hints += 1) one.poller.hint()
      return { changes: 0, rowsRead: 0 }
    },
  })
  const hinting = setImmediate(() => one.poller.hint())
  await one.run(intervalMs - 5_000)
  clearImmediate(hinting)
  expect(one.polls).toHaveLength(3)
})

test('a hint takes effect when the flow may be polled', async () => {
  let mayPoll = false
  const one = create({ mayPoll: async () => mayPoll })
  one.setLastPoll(new Date(one.now()))
  one.poller.hint()
  await one.run(5_000)
  expect(one.polls).toEqual([])
  mayPoll = true
})

test('a process that does not lead polls on request and on a hint, not by the timer', async () => {
  let leads = false
  const one = create({ leads: () => leads })
  setImmediate(() => one.poller.request({ force: false }))
  await one.run(3 * intervalMs)
  expect(one.polls).toHaveLength(1)
  const two = create({ leads: () => leads })
  two.setLastPoll(new Date(two.now()))
  two.poller.hint()
  await two.run(5_000)
  expect(two.polls).toHaveLength(1)
  const three = create({ leads: () => leads })
  leads = true
  await three.run(5_000)
  expect(three.polls).toHaveLength(1)
})

test('a poll by the timer waits for a free slot, a requested poll does not', async () => {
  const turn = Promise.withResolvers<void>()
  let ended = 0
  const one = create({
    takeSlot: async () => {
      await turn.promise
      return () => {
        ended += 1
      }
    },
  })
  const run = one.run(intervalMs / 2)
  await one.poller.request({ force: false })
  expect([one.polls.length, ended]).toEqual([1, 0])
  turn.resolve()
  await run
  expect(one.polls).toHaveLength(2)
  expect(ended).toBe(1)
})

test('a poller that waits for a slot stops at once, and that is no failure', async () => {
  const one = create({
    takeSlot: (signal) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      }),
  })
  one.poller.start()
  await new Promise((resolve) => setImmediate(resolve))
  await one.poller.stop()
  expect([one.polls, one.failures]).toEqual([[], []])
})

test('a request whose poll another process took over gets the next poll, and no failure', async () => {
  let polls = 0
  const { poller, failures } = create({
    poll: async () => {
      polls += 1
      if (polls === 1) throw new LeaseLostError()
      // The other process has it for a while.
      return polls === 2 ? undefined : { changes: 3, rowsRead: 5 }
    },
  })
  expect(await poller.request({ force: false })).toEqual({ changes: 3, rowsRead: 5 })
  expect(failures).toEqual([])
})
