/** Why an alert did not reach its receiver; `{status}` is what the mail server answered. */
export const alerts = {
  ALERT_NOT_SENT: 'el pedido no se hizo',
  SIGNING_SECRET_WRONG: 'el secreto empieza con {prefix}, pero lo que sigue no es base64',
  MAIL_NOT_SET_UP: 'faltan SMTP_URL y MAIL_FROM',
  MAIL_PARTLY_REFUSED: 'el servidor de correo rechazó {refused} de {all} direcciones',
  MAIL_LATE: 'el servidor de correo no aceptó el mensaje en {seconds} s',
  MAIL_LOGIN_REFUSED: 'el servidor de correo rechazó el usuario o la contraseña[ ({status})]',
  MAIL_SERVER_UNKNOWN: 'no se encontró el nombre del servidor de correo[ ({status})]',
  MAIL_NOT_SECURE: 'no hay conexión segura con el servidor de correo[ ({status})]',
  MAIL_SERVER_SILENT: 'el servidor de correo no respondió a tiempo[ ({status})]',
  MAIL_NO_CONNECTION: 'no hay conexión con el servidor de correo[ ({status})]',
  MAIL_ADDRESSES_REFUSED:
    'el servidor de correo rechazó al remitente o las direcciones[ ({status})]',
  MAIL_NOT_ACCEPTED: 'el servidor de correo no aceptó el mensaje[ ({status})]',
} as const
