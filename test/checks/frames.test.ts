/** @module-tag long */

import { Agent } from 'undici'
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, openShop, payByCard, type Shop } from '../support/till.ts'

/** The functions of ours between the handler of a route and undici, by the stack of the call, with `async` parts. */
function framesTo(path: RegExp): string[][] {
  const stacks: string[][] = []
  const { dispatch } = Agent.prototype
  const spy = vi.spyOn(Agent.prototype, 'dispatch').mockImplementation(function (
    this: Agent,
    options,
    handler,
  ) {
    if (options.method === 'POST' && path.test(options.path)) stacks.push(ownFrames())
    return dispatch.call(this, options, handler)
  })
  onTestFinished(() => spy.mockRestore())
  return stacks
}

function ownFrames(): string[] {
  const usual = Error.stackTraceLimit
  Error.stackTraceLimit = 200
  const { stack = '' } = new Error('here')
  Error.stackTraceLimit = usual
  return [...stack.matchAll(/at (?:async )?(\S+) \(\S*\/src\/([^)?:]+)/g)].map(
    ([, name, file]) => `${file} ${name}`,
  )
}

let service: TestService
let shop: Shop
beforeEach(async () => {
  service = await startTestService()
  shop = await openShop(service, 'frames', '7600001')
})
afterEach(() => service.stop())

/** They only run what they are given. */
const wrappers = ['byDeadline', 'withAccess']

test.each(['charge', 'cancel', 'refund'])(
  'a %s passes at most 14 functions from its route to undici, and 2 wrappers',
  async (what) => {
    const ask = async (path: string, body: object) =>
      (await call(service, { url: path, token: shop.key, body })).json()
    const sale = { caja_id: 'CAJA-1', external_reference: 'A-1', amount: '1234,50' }
    const stacks = framesTo(what === 'charge' ? /^\/v1\/orders$/ : new RegExp(`/${what}$`))
    const { order_id } = await ask('/orders', sale)
    if (what === 'refund') await act(service, order_id, payByCard)
    if (what !== 'charge') await ask(`/orders/${what}`, { order_id })
    expect(stacks).toHaveLength(1)
    const [frames = []] = stacks
    expect(frames.at(-1)).toContain(`routes/orders/${what}-route.ts`)
    expect(frames.length, frames.join('\n')).toBeLessThanOrEqual(14)
    const wrapping = frames.filter((frame) => wrappers.some((name) => frame.endsWith(` ${name}`)))
    expect(wrapping.length, frames.join('\n')).toBeLessThanOrEqual(2)
  },
)
