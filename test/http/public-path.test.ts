import { expect, test } from 'vitest'
import { publicPathOf } from '../../src/http/create-server.ts'
import { startPage } from '../../src/http/pages.ts'
import { publicServer } from './sample-app.ts'

/** A service below a path of its host: a proxy may take the path off or leave it. */

const app = publicServer({ publicPath: '/caja' })
app.register(startPage, { path: '/dashboard' })
app.get('/orders', async ({ url }) => ({ url }))
app.get('/cajas', async ({ url }) => ({ url }))

test.each([
  ['/caja/orders?a=1', '/orders?a=1'],
  ['/orders?a=1', '/orders?a=1'],
  ['/cajas', '/cajas'],
])('%s is answered as %s', async (given, url) => {
  expect((await app.inject(given)).json()).toEqual({ url })
})

test.each(['/caja/caja/orders', '/cajaorders', '/caja/cajas/x'])('%s is nothing', async (url) => {
  expect((await app.inject(url)).statusCode).toBe(404)
})

test.each(['/', '/caja', '/caja/', '/caja?from=bookmark'])(
  'a browser at %s is led to the page below the path',
  async (url) => {
    const answer = await app.inject({ url, headers: { accept: 'text/html' } })
    expect([answer.statusCode, answer.headers.location]).toEqual([302, '/caja/dashboard'])
  },
)

test('a path that begins a route of the service is refused by name', () => {
  const add = (publicPath: string) => () => {
    const own = publicServer({ publicPath })
    own.get('/orders/:orderId', async () => ({}))
  }
  expect(add('/orders')).toThrow('/orders/:orderId')
  expect(add('/order')).not.toThrow()
})

test('the path of an address has no slash at its end', () => {
  expect(publicPathOf('https://pay.example')).toBe('')
  expect(publicPathOf('https://pay.example/caja/v2')).toBe('/caja/v2')
})
