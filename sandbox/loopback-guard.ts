import type { FastifyRequest } from 'fastify'

/** Names and addresses that can only mean this machine. Accepts `[::1]` with and without brackets. */
export function isLoopbackName(name: string): boolean {
  const bare = name.replace(/^\[|\]$/g, '').toLowerCase()
  return bare === 'localhost' || bare === '::1' || /^127(\.\d{1,3}){3}$/.test(bare)
}

/** A foreign Host header means that another name resolves to this machine (DNS rebinding). */
export function hostIsLoopback(request: FastifyRequest): boolean {
  const { host } = request.headers
  if (host === undefined || !URL.canParse(`http://${host}`)) return false
  return isLoopbackName(new URL(`http://${host}`).hostname)
}

/** False when a browser reports a request from another site. Programs send neither header. */
export function notCrossSite(request: FastifyRequest): boolean {
  const { origin, host } = request.headers
  const site = request.headers['sec-fetch-site']
  if (origin !== undefined && origin !== `http://${host}`) return false
  return site === undefined || site === 'same-origin' || site === 'none'
}
