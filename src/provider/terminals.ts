import type { ProviderClient } from './client.ts'
import { terminalFrom } from './translate.ts'
import type { Provider } from './types.ts'
import { MpAnything, MpTerminalList } from './wire.ts'

/** Terminals (provider file 5). The provider pairs none by API: that is done on the device. */
export function createTerminals(client: ProviderClient): Provider['terminals'] {
  return {
    async list(token, { mpPosId, mpStoreId, limit, offset }, options) {
      const page = await client.call({
        operation: 'terminal.list',
        method: 'GET',
        path: '/terminals/v1/list',
        query: { limit, offset, store_id: mpStoreId, pos_id: mpPosId },
        token,
        schema: MpTerminalList,
        options,
      })
      const terminals = page.data.terminals.map(terminalFrom)
      return { terminals, total: page.paging?.total ?? terminals.length }
    },
    // The provider takes one terminal per call; the device must be restarted to follow.
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
