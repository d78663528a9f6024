import type { FastifyInstance } from 'fastify'
import { authenticate } from './auth.ts'
import type { Context } from './sandbox-context.ts'
import { siteIdOf, siteOf } from './sites.ts'

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
