#pragma once

// Keys and certificates for the tests of TLS.

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

namespace baton::http {

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;

inline Key make_key() { return Key(EVP_EC_gen("P-256")); }

inline void write_key(const std::string& path, EVP_PKEY* key, const char* passphrase = nullptr) {
  FILE* file = std::fopen(path.c_str(), "w");
  const EVP_CIPHER* cipher = passphrase == nullptr ? nullptr : EVP_aes_128_cbc();
  EXPECT_EQ(PEM_write_PKCS8PrivateKey(file, key, cipher, nullptr, 0, nullptr,
                                      const_cast<char*>(passphrase)),
            1);
  std::fclose(file);
}

// One that the key has signed itself, for `host` ("IP:127.0.0.1") if there is one.
inline void write_certificate(const std::string& path, EVP_PKEY* key, const char* name,
                              const char* host = nullptr) {
  X509* made = X509_new();
  X509_set_version(made, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
  X509_gmtime_adj(X509_getm_notBefore(made), -60);
  X509_gmtime_adj(X509_getm_notAfter(made), 3600);
  X509_set_pubkey(made, key);
  X509_NAME* subject = X509_get_subject_name(made);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  X509_set_issuer_name(made, subject);
  if (host != nullptr) {
    X509_EXTENSION* names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, host);
    X509_add_ext(made, names, -1);
    X509_EXTENSION_free(names);
  }
  EXPECT_GT(X509_sign(made, key, EVP_sha256()), 0);
  FILE* file = std::fopen(path.c_str(), "w");
  EXPECT_EQ(PEM_write_X509(file, made), 1);
  std::fclose(file);
  X509_free(made);
}

}  // namespace baton::http
