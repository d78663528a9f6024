import type { FastifyReply, FastifyRequest } from 'fastify'

/**
 * Binds a login to the browser that started it. The `__Host-` prefix needs https. Over plain http (loopback) there is no cookie
 * and only the state protects; over https a return without it is refused.
 */
const name = '__Host-tillbridge-login'

export function setBrowserToken(reply: FastifyReply, token: string): void {
  const options = { path: '/', secure: true, httpOnly: true, sameSite: 'lax', maxAge: 600 } as const
  reply.setCookie(name, token, options)
}

/** The value that this browser received; undefined when it sends none. */
export function browserTokenOf({ cookies }: FastifyRequest): string | undefined {
  return cookies[name]
}
