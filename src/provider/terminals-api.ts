import type { ProviderClient } from './client.ts'
import { terminalFrom } from './from-wire.ts'
import type { Provider } from './provider-types.ts'
import { MpAnything, MpTerminalList } from './wire.ts'

/** Terminals (provider file 5). The API cannot pair one: that is done on the device. */
export function createTerminals(client: ProviderClient): Provider['terminals'] {
  return {
    async list(token, { mpPosId, mpStoreId, limit, offset }, options) {
      const { terminals, ...page } = await client.call({
        operation: 'terminal.list',
        method: 'GET',
        path: '/terminals/v1/list',
        query: { limit, offset, store_id: mpStoreId, pos_id: mpPosId },
        token,
        schema: MpTerminalList,
        options,
      })
      return { terminals: terminals.map(terminalFrom), ...page }
    },
    // The provider accepts one terminal per call; the device must be restarted to apply it.
    async setMode(token, terminalId, mode, options) {
      await client.call({
        operation: 'terminal.mode',
        method: 'PATCH',
        path: '/terminals/v1/setup',
        token,
        body: { terminals: [{ id: terminalId, operating_mode: mode }] },
        schema: MpAnything,
        options,
      })
    },
  }
}
