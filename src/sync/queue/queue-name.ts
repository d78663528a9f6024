import { createHash } from 'node:crypto'

const plain = /^[a-z0-9][a-z0-9_-]{0,63}$/

/**
 * The name of a destination's queue, of letters, digits and `_-./`. Different destinations never share
 * one: names of another form, or too long, are hashed, and a hashed name begins like no plain one.
 */
export function queueName(flow: string, destination: string): string {
  if (plain.test(flow) && plain.test(destination)) return `${flow}/${destination}`
  const names = JSON.stringify([flow, destination])
  return `./${createHash('sha256').update(names).digest('hex')}`
}
