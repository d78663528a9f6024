import type { Fence } from '../../files/fence.ts'

/** What a flow may reach. Its connections and the service set it, never the text of the flow. */
export type Reach = {
  /** `host:port` on private networks that the flow's connections allow. */
  privateHosts: readonly string[]
  /** The named folder of the source (`source`) and of destinations by name. A part without one may use any folder. */
  folders: Readonly<Record<string, string>>
  /**
   * The connection of the source (`source`) and of destinations by name. Requests of these stay below its address, whatever
   * an item holds.
   */
  connections: Readonly<Record<string, string>>
  /** Folders of the service. No flow reads or writes a file in them. */
  forbidden: readonly string[]
}

export const emptyReach: Reach = { privateHosts: [], folders: {}, connections: {}, forbidden: [] }

/** Ports that an address means when it has none. */
export const portsOfSchemes: Readonly<Record<string, string>> = {
  'http:': '80',
  'https:': '443',
  'sftp:': '22',
}

/** Where the files of a source (`source`) or of a destination by name may be. */
export function fenceOf({ reach }: { reach: Reach }, part: string): Fence {
  return { inside: reach.folders[part], outside: reach.forbidden }
}
