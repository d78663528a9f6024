import { startSandbox } from '../../sandbox/server.ts'

// The provider, in its own process, so that it slows no contender.

const { url, info } = await startSandbox({ port: 0, pace: { fetchMs: 0, eventMs: 0 } })
process.send?.({ url, info })
process.once('disconnect', () => process.exit())
