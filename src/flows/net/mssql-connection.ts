import mssql from 'mssql'

/**
 * The driver's options from an address, or from an ADO connection string (`Server=…;Database=…`):
 * `mssql://user:password@host:1433/database?encrypt=true&trustServerCertificate=false&instanceName=…`. Connections are
 * encrypted, unless the address disables it.
 */
export function mssqlConfig(address: string): mssql.config {
  if (!/^(mssql|sqlserver):\/\//i.test(address)) {
    return mssql.ConnectionPool.parseConnectionString(address)
  }
  const { hostname, port, username, password, pathname, searchParams } = new URL(address)
  const instanceName = searchParams.get('instanceName')
  return {
    server: hostname.replace(/^\[(.*)\]$/, '$1'),
    ...(port && { port: Number(port) }),
    ...(username && { user: decodeURIComponent(username) }),
    ...(password && { password: decodeURIComponent(password) }),
    ...(pathname.length > 1 && { database: decodeURIComponent(pathname.slice(1)) }),
    options: {
      encrypt: searchParams.get('encrypt') !== 'false',
      trustServerCertificate: ['true', '1'].includes(
        searchParams.get('trustServerCertificate') ?? '',
      ),
      ...(instanceName && { instanceName }),
    },
  }
}
