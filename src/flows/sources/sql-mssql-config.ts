import mssql from 'mssql'

/**
 * The driver's options from an address:
 * `mssql://user:password@host:1433/database?encrypt=true&trustServerCertificate=false&instanceName=…`, or a connection string
 * of `Key=value;`. The caller sets the timeouts. The connection declares ApplicationIntent read-only, by which an availability
 * group chooses a replica.
 */
export function mssqlConfig(url: string, timeoutMs: number): mssql.config {
  const config = /^(mssql|sqlserver):\/\//i.test(url)
    ? fromUrl(new URL(url))
    : mssql.ConnectionPool.parseConnectionString(url)
  return {
    ...config,
    connectionTimeout: timeoutMs,
    requestTimeout: timeoutMs,
    pool: { min: 0, max: 1 },
    arrayRowMode: true,
    options: { ...config.options, appName: 'tillbridge', readOnlyIntent: true, useUTC: true },
  }
}

function fromUrl(url: URL): mssql.config {
  const flag = (name: string, otherwise: boolean) => {
    const given = url.searchParams.get(name)
    return given === null ? otherwise : given !== 'false'
  }
  const instanceName = url.searchParams.get('instanceName')
  return {
    server: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    ...(url.port && { port: Number(url.port) }),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    ...(url.pathname.length > 1 && { database: decodeURIComponent(url.pathname.slice(1)) }),
    options: {
      encrypt: flag('encrypt', true),
      trustServerCertificate: flag('trustServerCertificate', false),
      ...(instanceName && { instanceName }),
    },
  }
}
