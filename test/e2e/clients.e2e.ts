import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, enrol } from '../support/till.ts'
import {
  button,
  expectText,
  openPage,
  seriousBarriers,
  signIn,
  type WatchedPage,
} from './browser.ts'

/** Keys and links: shown once and not to be lost, ended one by one, changed without a cut. */
let service: TestService
let url: string
let opened: WatchedPage | undefined

beforeAll(async () => {
  service = await startTestService()
  url = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await service?.stop()
})

async function open(view: string): Promise<Page> {
  opened = await openPage(`${url}#/${view}`)
  await signIn(opened.page, adminToken)
  return opened.page
}

const main = (page: Page) => page.locator('main')
const secret = (page: Page) => page.locator('input.secret')
const isValid = async (token: string) =>
  (await call(service, { url: '/oauth/validate', token })).json().valid

async function keysOf(client: string) {
  const { keys } = (await asAdmin(service, { url: '/api-keys' })).json()
  return keys.filter((key: { client: string }) => key.client === client)
}

test('a key that is shown once stays through Esc, a click beside it and other views, until it is stored', async () => {
  await enrol(service, 'guardada', '7920001')
  const page = await open('clients?client=guardada')
  await button(page, /^Create key/).click()
  await page.getByRole('dialog').locator('button[type=submit]').click()
  await expect.poll(() => secret(page).inputValue()).toMatch(/^mk_[0-9a-f]{64}$/)
  const token = await secret(page).inputValue()
  expect(await isValid(token)).toBe(true)
  expect(await seriousBarriers(page)).toEqual([])
  await page.keyboard.press('Escape')
  await page.keyboard.press('Escape')
  await page.mouse.click(5, 400)
  expect(await secret(page).inputValue()).toBe(token)
  await page.goto(`${url}#/orders`)
  await expectText(page.locator('h1'), 'Orders')
  await page.goBack()
  await expect.poll(() => secret(page).inputValue()).toBe(token)
  await button(page, 'Done, I stored it').click()
  await expect.poll(() => secret(page).count()).toBe(0)
  expect(await page.content()).not.toContain(token)
  opened?.expectQuiet()
})

test('one key is ended alone, and the others of its client go on', async () => {
  const { key: first } = await enrol(service, 'sola', '7920002')
  const body = { client: 'sola', description: 'second' }
  const second = (await asAdmin(service, { url: '/api-keys', body })).json().key
  const page = await open('clients?client=sola')
  const row = page.getByRole('row', { name: /second/ })
  await row.getByRole('button', { name: /^Revoke/ }).click()
  await button(page.getByRole('dialog'), 'Revoke').click()
  await expectText(row, 'revoked')
  expect([await isValid(first), await isValid(second)]).toEqual([true, false])
  opened?.expectQuiet()
})

test('a key is exchanged without a cut: the new one first, the old one ended once the new one is used', async () => {
  const { key: old } = await enrol(service, 'cambiada', '7920003')
  const page = await open('clients?client=cambiada')
  await button(page, /^Exchange…/).click()
  await button(page.getByRole('dialog'), 'Make the new key').click()
  await expect.poll(() => secret(page).inputValue()).toMatch(/^mk_/)
  const fresh = await secret(page).inputValue()
  expect([await isValid(old), await isValid(fresh)]).toEqual([true, true])
  await button(page, 'Done, I stored it').click()
  await expectText(main(page), 'has not been used yet')
  expect(await page.content()).not.toContain(fresh)
  await call(service, { url: '/orders', token: fresh })
  await expectText(main(page), 'The new key is in use')
  await button(page, 'End the old key').click()
  await button(page.getByRole('dialog'), 'Revoke').click()
  await expect.poll(() => button(page, 'End the old key').count()).toBe(0)
  expect([await isValid(old), await isValid(fresh)]).toEqual([false, true])
  expect(await keysOf('cambiada')).toHaveLength(2)
  opened?.expectQuiet()
})

test('open invitations are listed, and one that is revoked begins nothing any more', async () => {
  const page = await open('clients')
  await main(page).getByRole('link', { name: 'New client' }).click()
  await page.getByLabel('Name of the client').fill('invitada')
  await page.keyboard.press('Enter')
  await expect.poll(() => secret(page).inputValue()).toContain('client=invitada')
  const link = new URL(await secret(page).inputValue())
  const row = page.getByRole('row', { name: /invitada/ })
  await row.getByRole('button', { name: /^Revoke/ }).click()
  await button(page.getByRole('dialog'), 'Revoke').click()
  await expect.poll(() => row.count()).toBe(0)
  await expect.poll(() => secret(page).count()).toBe(0)
  const answer = await call(service, { url: `${link.pathname}${link.search}` })
  expect(answer.json().code).toBe('INVITATION_INVALID')
  opened?.expectQuiet()
})
