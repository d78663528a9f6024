/** What a person at a terminal wants to know of a service that is ready. */
export type StartedService = {
  /** Address of the payment API. */
  url: string
  /** Address of the control API. */
  syncUrl: string
  /** Address under which browsers and the provider reach the payment API. */
  publicUrl: string
  mode: 'sandbox' | 'mercadopago'
  sandboxUrl: string | undefined
  /** Such as `PostgreSQL`, or the folder of the embedded one. */
  database: string
  /** The file with the generated administrator token; undefined when a setting has it. */
  tokenFile: string | undefined
}

/** A readable block for a terminal; the log has the same as JSON. */
export function startupMessage(started: StartedService): string {
  const { url, syncUrl, publicUrl, mode, sandboxUrl, database, tokenFile } = started
  const lines: [name: string, value: string][] = [
    ['Dashboard', `${url}/dashboard`],
    ['Flows', `${syncUrl}/admin`],
    ['API', `${url}/docs and ${syncUrl}/docs`],
    ['Guide', `${url}/guide`],
  ]
  if (publicUrl !== url) lines.push(['Public address', publicUrl])
  if (sandboxUrl !== undefined) lines.push(['Virtual terminals', sandboxUrl])
  lines.push(
    ['Mode', mode === 'sandbox' ? 'sandbox: no real money moves' : 'Mercado Pago: real cards'],
    ['Database', database],
    ['Administrator token', tokenFile ?? 'ADMIN_TOKEN of the settings'],
  )
  const width = Math.max(...lines.map(([name]) => name.length))
  const rows = lines.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`)
  return `\ntillbridge is ready. Stop it with Ctrl+C.\n\n${rows.join('\n')}\n\n`
}
