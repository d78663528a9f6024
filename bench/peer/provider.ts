import { startSandbox } from '../../src/sandbox/server.ts'

// The provider, in a process of its own: nobody's work is slowed by its.

const { url, info } = await startSandbox({ port: 0, pace: { fetchMs: 0, eventMs: 0 } })
process.send?.({ url, info })
process.once('disconnect', () => process.exit())
