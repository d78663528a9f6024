import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { authenticate } from './auth.ts'
import { newFreeNumber } from './ids.ts'
import type { AccessToken, RefreshToken, Seller } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { siteIdOf, siteOf } from './sites.ts'
import { connectWebhooks } from './webhooks.ts'

type NewSeller = {
  id?: number | undefined
  nickname?: string | undefined
  liveMode?: boolean | undefined
  isDefault?: boolean
  siteId?: string | undefined
}

/** Creates a seller account; without an id it gets a free one. */
export function createSeller(ctx: Context, options: NewSeller = {}): Seller {
  const seller = newSeller(ctx, options)
  ctx.state.commit('seller.created', String(seller.id), { sellers: { [seller.id]: seller } })
  return seller
}

export function newSeller(ctx: Context, options: NewSeller): Seller {
  const { sellers } = ctx.state.tables
  const id = options.id ?? newFreeNumber(10, (candidate) => sellers.has(String(candidate)))
  return {
    id,
    nickname: options.nickname ?? `TESTUSER${id}`,
    liveMode: options.liveMode ?? false,
    revoked: false,
    publicKey: `APP_USR-${randomUUID()}`,
    createdAt: new Date(ctx.nowMs()).toISOString(),
    isDefault: options.isDefault ?? false,
    siteId: options.siteId ?? 'MLA',
  }
}

/** The account of an authorization that names none. Created once. */
export function defaultSeller(ctx: Context): Seller {
  for (const seller of ctx.state.tables.sellers.values()) if (seller.isDefault) return seller
  return createSeller(ctx, { isDefault: true })
}

/** The seller with this id, created if it does not exist. Undefined for text that is not an account number. */
export function sellerByText(ctx: Context, text: string): Seller | undefined {
  if (!/^[1-9]\d{0,14}$/.test(text)) return undefined
  return ctx.state.tables.sellers.get(text) ?? createSeller(ctx, { id: Number(text) })
}

/**
 * The seller revokes the permission: every token becomes invalid, and `application.deauthorized` is sent (provider
 * facts 6.3).
 */
export function revokeSeller(ctx: Context, seller: Seller): void {
  const { tables } = ctx.state
  const accessTokens: Record<string, AccessToken> = {}
  const refreshTokens: Record<string, RefreshToken> = {}
  for (const [id, token] of tables.accessTokens) {
    if (token.userId === seller.id) accessTokens[id] = { ...token, revoked: true }
  }
  for (const [id, token] of tables.refreshTokens) {
    if (token.userId === seller.id) refreshTokens[id] = { ...token, used: true }
  }
  ctx.state.commit('seller.revoked', String(seller.id), {
    sellers: { [seller.id]: { ...seller, revoked: true } },
    accessTokens,
    refreshTokens,
    webhooks: connectWebhooks(ctx, seller, 'deauthorized'),
  })
  ctx.wake()
}

/** GET /users/me (provider facts 8). */
export function userRoutes(app: FastifyInstance, ctx: Context): void {
  app.get('/users/me', (request) => {
    const seller = authenticate(ctx, request)
    const test = seller.liveMode ? [] : ['test_user']
    return {
      id: seller.id,
      nickname: seller.nickname,
      registration_date: seller.createdAt.replace('Z', '-00:00'),
      first_name: 'Test',
      last_name: 'Test',
      country_id: siteOf(ctx, seller.id).country,
      email: `test_user_${seller.id}@testuser.com`,
      identification: { number: '20301234567', type: 'CUIT' },
      user_type: 'normal',
      tags: ['normal', ...test, 'user_product_seller'],
      site_id: siteIdOf(ctx, seller.id),
      permalink: `http://perfil.example/${encodeURIComponent(seller.nickname)}`,
      status: {
        site_status: 'active',
        mercadopago_account_type: 'personal',
        confirmed_email: true,
      },
    }
  })
}
