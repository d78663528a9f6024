import type { ReasonTexts } from './reason-texts.ts'

/** Why an alert did not reach its receiver; `{status}` is what the mail server answered. */
export const alertReasons = {
  ALERT_NOT_SENT: { en: 'the request was not made', es: 'el pedido no se hizo' },
  SIGNING_SECRET_WRONG: {
    en: 'the secret begins with {prefix}, but what follows is not base64',
    es: 'el secreto empieza con {prefix}, pero lo que sigue no es base64',
  },
  MAIL_NOT_SET_UP: {
    en: 'SMTP_URL and MAIL_FROM are not set',
    es: 'faltan SMTP_URL y MAIL_FROM',
  },
  MAIL_PARTLY_REFUSED: {
    en: 'the mail server refused {refused} of {all} addresses',
    es: 'el servidor de correo rechazó {refused} de {all} direcciones',
  },
  MAIL_LATE: {
    en: 'the mail server did not accept the mail within {seconds} s',
    es: 'el servidor de correo no aceptó el mensaje en {seconds} s',
  },
  MAIL_LOGIN_REFUSED: {
    en: 'the mail server refused the login[ ({status})]',
    es: 'el servidor de correo rechazó el usuario o la contraseña[ ({status})]',
  },
  MAIL_SERVER_UNKNOWN: {
    en: 'the name of the mail server was not found[ ({status})]',
    es: 'no se encontró el nombre del servidor de correo[ ({status})]',
  },
  MAIL_NOT_SECURE: {
    en: 'no secure connection to the mail server[ ({status})]',
    es: 'no hay conexión segura con el servidor de correo[ ({status})]',
  },
  MAIL_SERVER_SILENT: {
    en: 'the mail server did not answer in time[ ({status})]',
    es: 'el servidor de correo no respondió a tiempo[ ({status})]',
  },
  MAIL_NO_CONNECTION: {
    en: 'no connection to the mail server[ ({status})]',
    es: 'no hay conexión con el servidor de correo[ ({status})]',
  },
  MAIL_ADDRESSES_REFUSED: {
    en: 'the mail server refused the sender or the addresses[ ({status})]',
    es: 'el servidor de correo rechazó al remitente o las direcciones[ ({status})]',
  },
  MAIL_NOT_ACCEPTED: {
    en: 'the mail server did not accept the mail[ ({status})]',
    es: 'el servidor de correo no aceptó el mensaje[ ({status})]',
  },
} as const satisfies ReasonTexts
